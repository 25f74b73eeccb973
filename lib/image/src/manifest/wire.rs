//! The messages of a manifest (proto3 syntax, every scalar optional: only so can presence be checked).
//! They are written one entry at a time; reading walks over the fields, see `decode`.

use prost::Message;

/// `files` (field 10) comes after it, entry by entry.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Manifest {
    #[prost(uint32, optional, tag = "1")]
    pub(super) version: Option<u32>,
    #[prost(uint32, optional, tag = "2")]
    pub(super) block_size: Option<u32>,
    #[prost(string, optional, tag = "3")]
    pub(super) id: Option<String>,
    #[prost(uint64, optional, tag = "4")]
    pub(super) created_ms: Option<u64>,
    #[prost(string, optional, tag = "5")]
    pub(super) parent: Option<String>,
    #[prost(message, optional, tag = "6")]
    pub(super) binding: Option<Binding>,
    #[prost(message, optional, tag = "7")]
    pub(super) source: Option<Source>,
    /// 8 bytes.
    #[prost(bytes = "vec", optional, tag = "8")]
    pub(super) data_key: Option<Vec<u8>>,
    /// 16 bytes for each.
    #[prost(bytes = "vec", optional, tag = "9")]
    pub(super) packs: Option<Vec<u8>>,
}

/// Field of [`Manifest`] that holds the files.
pub(super) const FILES: u32 = 10;

#[derive(Clone, PartialEq, Message)]
pub(super) struct Binding {
    /// 1 free, 2 pod.
    #[prost(uint32, optional, tag = "1")]
    pub(super) kind: Option<u32>,
    #[prost(string, optional, tag = "2")]
    pub(super) namespace: Option<String>,
    #[prost(string, optional, tag = "3")]
    pub(super) namespace_uid: Option<String>,
    #[prost(string, optional, tag = "4")]
    pub(super) pod: Option<String>,
    #[prost(string, optional, tag = "5")]
    pub(super) container: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Source {
    #[prost(string, optional, tag = "1")]
    pub(super) runtime: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub(super) container_id: Option<String>,
    #[prost(string, optional, tag = "3")]
    pub(super) image: Option<String>,
    #[prost(string, optional, tag = "4")]
    pub(super) image_digest: Option<String>,
    #[prost(message, repeated, tag = "5")]
    pub(super) mounts: Vec<Mount>,
    #[prost(string, optional, tag = "6")]
    pub(super) topology: Option<String>,
    #[prost(string, repeated, tag = "7")]
    pub(super) cpu_features: Vec<String>,
    #[prost(string, optional, tag = "8")]
    pub(super) criu_version: Option<String>,
    #[prost(string, optional, tag = "9")]
    pub(super) kernel_version: Option<String>,
    #[prost(string, optional, tag = "10")]
    pub(super) node: Option<String>,
    #[prost(message, repeated, tag = "11")]
    pub(super) annotations: Vec<Annotation>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Mount {
    #[prost(string, optional, tag = "1")]
    pub(super) destination: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub(super) source: Option<String>,
    #[prost(string, optional, tag = "3")]
    pub(super) kind: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Annotation {
    #[prost(string, optional, tag = "1")]
    pub(super) name: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub(super) value: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct FileEntry {
    #[prost(string, optional, tag = "1")]
    pub(super) path: Option<String>,
    #[prost(uint32, optional, tag = "2")]
    pub(super) mode: Option<u32>,
    #[prost(uint32, optional, tag = "3")]
    pub(super) uid: Option<u32>,
    #[prost(uint32, optional, tag = "4")]
    pub(super) gid: Option<u32>,
    #[prost(uint64, optional, tag = "5")]
    pub(super) modified_ms: Option<u64>,
    /// 1 directory, 2 symbolic link, 3 regular file.
    #[prost(uint32, optional, tag = "6")]
    pub(super) kind: Option<u32>,
    /// Kind 2 only.
    #[prost(string, optional, tag = "7")]
    pub(super) target: Option<String>,
    /// Kind 3 only.
    #[prost(message, repeated, tag = "8")]
    pub(super) spans: Vec<Span>,
}

/// One column for each property of the blocks that are in packs: what is alike stands together, which
/// compresses well.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Span {
    #[prost(uint64, optional, tag = "1")]
    pub(super) size: Option<u64>,
    #[prost(string, optional, tag = "2")]
    pub(super) label: Option<String>,
    /// Bit `i % 8` of byte `i / 8` is set when block `i` is all zeros. Absent: no block is.
    #[prost(bytes = "vec", optional, tag = "3")]
    pub(super) zero_blocks: Option<Vec<u8>>,
    /// 32 bytes for each.
    #[prost(bytes = "vec", optional, tag = "4")]
    pub(super) ids: Option<Vec<u8>>,
    #[prost(uint32, repeated, tag = "5")]
    pub(super) packs: Vec<u32>,
    #[prost(uint64, repeated, tag = "6")]
    pub(super) offsets: Vec<u64>,
    #[prost(uint32, repeated, tag = "7")]
    pub(super) stored: Vec<u32>,
    /// One byte for each: 0 raw, 1 zstd.
    #[prost(bytes = "vec", optional, tag = "8")]
    pub(super) encodings: Option<Vec<u8>>,
}
