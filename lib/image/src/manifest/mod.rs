//! The manifest: what a stored checkpoint consists of, and whose it is. `docs/store.md` describes its fields.

mod blocks;
mod columns;
mod decode;
mod encode;
mod error;
mod id;
mod size;
#[cfg(test)]
mod tests;
mod validate;
mod wire;

pub use blocks::Blocks;
pub use error::ManifestError;
pub use id::{BlockId, CheckpointId, DataKeyId, InvalidId, PackId};
pub use size::{PlacedBlock, Totals};

/// Largest size of a block before compression, in bytes. Blocks are aligned to it within each span.
pub const BLOCK_SIZE: u32 = 4 << 20;

/// Bytes at the start of a pack that hold no block.
pub const PACK_HEADER: u64 = 40;

/// Largest size of a pack, in bytes.
pub const MAX_PACK: u64 = 1 << 30;

/// Largest size of an encoded manifest, in bytes: some 20 TiB of stored blocks.
pub const MAX_MANIFEST: u64 = 256 << 20;

/// Most files of a checkpoint, directories and links included.
pub const MAX_FILES: usize = 1 << 20;

/// Most entries of each list in a [`Source`].
const MAX_LIST: usize = 4096;

/// Version of the message that this code writes, and the newest that it reads.
const VERSION: u32 = 1;

/// A stored checkpoint of one container, or of one process tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// Its name.
    pub id: CheckpointId,
    /// When it was finished: milliseconds since 1970, UTC.
    pub created_ms: u64,
    /// The checkpoint that was there before it, for people and for retention. Nothing of it is needed.
    pub parent: Option<CheckpointId>,
    /// Whose it is.
    pub binding: Binding,
    /// What was checkpointed.
    pub source: Source,
    /// The data key that seals its packs and names its blocks; `None` in a store without sealing.
    pub data_key: Option<DataKeyId>,
    /// Packs that blocks are in, each once.
    pub packs: Vec<PackId>,
    /// Files and directories by path, each once, parents before their content.
    pub files: Vec<FileEntry>,
}

/// Whom a checkpoint may be restored for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Binding {
    /// Anybody.
    Free,
    /// The container of this name in a pod of this namespace.
    Pod {
        /// Name of the namespace.
        namespace: String,
        /// UID of the namespace.
        namespace_uid: String,
        /// Name of the pod.
        pod: String,
        /// Name of the container.
        container: String,
    },
}

/// What was checkpointed, as far as a restore and people want to know before they read any file. Everything
/// may be absent, as in archives of others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// Runtime that the container ran under: `runc`, `crun`, `bare`.
    pub runtime: Option<String>,
    /// Id of the container in its runtime.
    pub container_id: Option<String>,
    /// Image of the container, as it was asked for.
    pub image: Option<String>,
    /// Digest of that image.
    pub image_digest: Option<String>,
    /// Mounts of the container.
    pub mounts: Vec<Mount>,
    /// The GPUs and their CPUs: the compact form of `rocferry_topology`, as JSON.
    pub topology: Option<String>,
    /// Features of the CPU that a restore relies on.
    pub cpu_features: Vec<String>,
    /// Version of CRIU at the dump.
    pub criu_version: Option<String>,
    /// Release of the kernel at the dump.
    pub kernel_version: Option<String>,
    /// Name of the node.
    pub node: Option<String>,
    /// Anything else, by name.
    pub annotations: Vec<(String, String)>,
}

/// A mount of the container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Where it is in the container.
    pub destination: String,
    /// What is mounted there.
    pub source: String,
    /// Kind of file system; `bind` for a bind mount.
    pub kind: String,
}

/// A file of the checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEntry {
    /// Path below the checkpoint's directory: no leading `/`, no empty, `.` or `..` part.
    pub path: String,
    /// Permission bits, below 0o10000.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Time of the last change, milliseconds since 1970.
    pub modified_ms: u64,
    /// What it is.
    pub content: Content,
}

/// What a file consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A directory.
    Directory,
    /// A symbolic link. Its target is never followed by us.
    Symlink(String),
    /// A regular file: its spans one after the other, without gaps.
    Regular(Vec<Span>),
}

/// A part of a file whose blocks are aligned to its own start: what lies between two cut points.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Bytes, more than 0.
    pub size: u64,
    /// What it is to whoever wrote it, for instance the GPU and the address of a BO.
    pub label: Option<String>,
    /// Its blocks: all of [`BLOCK_SIZE`] but the last one.
    pub blocks: Blocks,
}

/// Where a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockRef {
    /// Nowhere: all its bytes are 0.
    Zero,
    /// In a pack.
    Stored {
        /// Its name, which its content must have.
        id: BlockId,
        /// Which of [`Manifest::packs`].
        pack: u32,
        /// First byte in the pack.
        offset: u64,
        /// Bytes in the pack, sealing and compression included.
        stored: u32,
        /// How the bytes become the block.
        encoding: Encoding,
    },
}

/// How a block is stored, before sealing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// As it is.
    Raw,
    /// One zstd frame.
    Zstd,
}

impl Encoding {
    /// Bytes that a block takes in its pack besides its content: a nonce and a tag if it is sealed, else a
    /// check value where the block's id alone would not tell every damage.
    #[must_use]
    pub const fn overhead(self, sealed: bool) -> u32 {
        match (sealed, self) {
            (true, _) => 24 + 16,
            (false, Self::Zstd) => 16,
            (false, Self::Raw) => 0,
        }
    }
}

/// `free`, or `NAMESPACE/POD/CONTAINER` and the UID of the namespace.
impl std::fmt::Display for Binding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Free => f.write_str("free"),
            Self::Pod {
                namespace,
                namespace_uid,
                pod,
                container,
            } => write!(
                f,
                "{namespace}/{pod}/{container} (namespace {namespace_uid})"
            ),
        }
    }
}
