//! Machines as folders, and checkpoints of them.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use rocferry_image::{
    FdDir, FileId, KfdImage, TaskDevice, TaskPid, TaskRecord, names, write_image,
};
use rocferry_topology::{CompactTopology, GpuNode, System, UserGpuId};
use tempfile::TempDir;

use crate::trees::{self, Files};

/// Files of a real machine; `lib/topology/tests/trees/README.md` says which ones there are.
pub(crate) fn files(name: &str) -> Files {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../lib/topology/tests/trees")
        .join(format!("{name}.tree"));
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}.tree: {error}"));
    trees::expand(&text).unwrap_or_else(|error| panic!("{name}.tree: {error}"))
}

/// The same, read.
pub(crate) fn system(name: &str) -> System {
    System::from_files(&files(name)).expect("tree")
}

/// Writes a tree; `dir` is the one named `topology`.
pub(crate) fn write(files: &Files, dir: &Path) {
    for (path, content) in files {
        let path = dir.join(path);
        fs::create_dir_all(path.parent().expect("parent")).expect("directory");
        fs::write(path, content.as_deref().expect("readable")).expect("file");
    }
}

/// A machine on disk.
pub(crate) struct Machine {
    dir: TempDir,
}

impl Machine {
    pub(crate) fn new(name: &str) -> Self {
        Self::from_files(&files(name))
    }

    pub(crate) fn from_files(files: &Files) -> Self {
        let dir = TempDir::new().expect("directory");
        write(files, dir.path());
        Self { dir }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }
}

/// Writes a published form, as `topology show -o json` does.
pub(crate) fn publish(compact: &CompactTopology, dir: &Path) -> PathBuf {
    let path = dir.join("published.json");
    fs::write(&path, serde_json::to_string(compact).expect("JSON")).expect("file");
    path
}

/// Private data of the kernel for so many GPUs, without objects.
fn private_data(gpus: usize, xnack: bool) -> Vec<u8> {
    let header = [1, u32::from(xnack)].map(u32::to_le_bytes).concat();
    [header, vec![0; 8 * gpus]].concat()
}

/// The kernel's record of an SDMA queue, with what lib/image looks at: its GPU and its kind.
fn sdma_queue(gpu: UserGpuId) -> Vec<u8> {
    let mut record = vec![0; 120];
    record[64..68].copy_from_slice(&gpu.get().to_le_bytes());
    record[68] = 1;
    record
}

/// A process of a checkpoint: the GPUs of `system` that `user` gives a name to, under that name.
pub(crate) struct Dump<'a> {
    pub(crate) dir: &'a Path,
    pub(crate) system: &'a System,
    pub(crate) xnack: bool,
}

impl Dump<'_> {
    /// Writes its kfd image, as the C plugin does.
    pub(crate) fn process(
        &self,
        pid: u32,
        file: i32,
        user: impl FnMut(&GpuNode) -> Option<UserGpuId>,
    ) -> KfdImage {
        self.process_with_queues(pid, file, user, &[])
    }

    /// The same with an SDMA queue on each of these GPUs.
    pub(crate) fn process_with_queues(
        &self,
        pid: u32,
        file: i32,
        user: impl FnMut(&GpuNode) -> Option<UserGpuId>,
        queues: &[UserGpuId],
    ) -> KfdImage {
        let system = self.system.rename(user);
        let mut priv_data = private_data(system.gpus().count(), self.xnack);
        priv_data.extend(queues.iter().flat_map(|gpu| sdma_queue(*gpu)));
        let image = KfdImage {
            pid: TaskPid(pid),
            priv_data,
            system,
            bos: vec![],
            num_objects: u32::try_from(queues.len()).expect("few"),
            shared_mem_size: 0,
            shared_mem_magic: 0,
        };
        write_image(&self.images(), &names::kfd(FileId(file)), &image).expect("image");
        image
    }

    /// Writes our record beside it, from the machine.
    pub(crate) fn record(&self, image: &KfdImage, file: i32) {
        let gpus = image.system.gpus().map(|gpu| {
            let machine = self.system.gpu_by_minor(gpu.render_minor);
            (gpu, machine.expect("a GPU of the machine"))
        });
        let devices = gpus.map(|(gpu, machine)| TaskDevice {
            user: gpu.id,
            actual: machine.id,
            render_minor: machine.render_minor,
            gfx_target_version: machine.gfx_target_version,
            num_xcc: machine.num_xcc,
            compute_partition: machine.compute_partition,
            memory_partition: machine.memory_partition,
            partition_index: machine.partition_index(),
        });
        let record = TaskRecord {
            pid: image.pid,
            kfd_file: FileId(file),
            devices: devices.collect(),
            vmas: vec![],
        };
        write_image(&self.images(), &names::task_record(image.pid), &record).expect("image");
    }

    fn images(&self) -> FdDir<File> {
        FdDir(File::open(self.dir).expect("directory"))
    }
}

/// The name that a GPU has at a first dump.
#[expect(clippy::unnecessary_wraps, reason = "the form that renaming takes")]
pub(crate) fn own_id(gpu: &GpuNode) -> Option<UserGpuId> {
    Some(UserGpuId(gpu.id.get()))
}

/// Keeps those of these nodes.
pub(crate) fn of_nodes(nodes: &[u32]) -> impl Fn(&GpuNode) -> Option<UserGpuId> {
    move |gpu| {
        let node = gpu.node.get();
        nodes.contains(&node).then(|| UserGpuId(gpu.id.get()))
    }
}
