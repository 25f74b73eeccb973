//! The restore of one tree: in CRIU (`begin`, `resume`, `finish`) and, after the forks, in each task.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rocferry_image::{
    DmabufImage, FileId, FileKind, FileRecord, ImageDir, KfdImage, RenderImage, TaskPid,
    TaskRecord, names, read_image,
};
use rocferry_kfd::kfd::Access;
use rocferry_kfd::{Kfd, RenderNode, render_node_path};
use rocferry_topology::{System, UserGpuId};
use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, getpid, kill_process};

use super::board::{TaskBoard, TaskSlot, TaskStage};
use super::mappings::{self, VmaAnswer};
use super::nodes::Nodes;
use super::predecessor;
use super::result::{Results, innermost_pid};
use super::task::{RestoredTask, TaskImages};
use crate::config::Config;
use crate::device::KFD_PATH;
use crate::error::RestoreError;
use crate::host::{Host, log_at};
use crate::outcome::Outcome;

/// What this process has done about the GPU state of the task that it is.
#[derive(Debug, Default)]
enum ThisTask {
    /// No GPU file met so far.
    #[default]
    Untouched,
    /// Restored.
    Restored(Box<RestoredTask>),
    /// An earlier hook failed; every later one fails too.
    Failed,
}

/// Our record of the task that this process is. Kept once read: a stream hands an image out once, and a
/// file of somebody else's may be met before the first GPU file.
#[derive(Debug, Default)]
enum OwnRecord {
    /// Not read yet.
    #[default]
    Unread,
    /// There is none: no GPU state, or images of the C plugin.
    Absent,
    /// Read, for the restore of the GPU state.
    Read(Box<TaskRecord>),
    /// Given to the restore of the GPU state.
    Used,
}

impl OwnRecord {
    fn read(&mut self, images: &dyn ImageDir, pid: TaskPid) -> Result<&mut Self, RestoreError> {
        if matches!(self, Self::Unread) {
            let record = read_image::<TaskRecord>(images, &names::task_record(pid))?;
            *self = record.map_or(Self::Absent, |record| Self::Read(Box::new(record)));
        }
        Ok(self)
    }

    /// Is there one?
    fn exists(&mut self, images: &dyn ImageDir, pid: TaskPid) -> Result<bool, RestoreError> {
        Ok(!matches!(self.read(images, pid)?, Self::Absent))
    }

    /// The record, once.
    fn take(
        &mut self,
        images: &dyn ImageDir,
        pid: TaskPid,
    ) -> Result<Option<Box<TaskRecord>>, RestoreError> {
        let record = self.read(images, pid)?;
        Ok(match std::mem::replace(record, Self::Used) {
            Self::Read(record) => Some(record),
            other => {
                *record = other;
                None
            }
        })
    }
}

/// Everything a restore knows. `B` is the memory shared between CRIU and its tasks.
///
/// No descriptor is kept here between hooks: a task closes all that it inherited, and one of ours would sit
/// on a number that the application needs. Files live in CRIU's fdstore.
#[derive(Debug)]
pub struct RestoreSession<B> {
    config: Config,
    board: B,
    /// CRIU's work directory, where the result file goes.
    work_dir: Option<PathBuf>,
    /// The topology as CRIU sees it, for tasks whose mount namespace has no sysfs.
    criu_view: Option<System>,
    nodes: Nodes,
    results: Results,
    own_record: OwnRecord,
    this_task: ThisTask,
}

impl<B: TaskBoard> RestoreSession<B> {
    /// Called in CRIU before it forks.
    pub fn begin(host: &dyn Host, config: Config, board: B) -> Self {
        let work_dir = std::env::current_dir().ok();
        // A restore that ends before it has a result must not be taken for the one before it.
        if let Err(error) = Results::remove(work_dir.as_deref()) {
            log_at!(host, Warn, "{}", crate::error::chain(&error));
        }
        let criu_view = if may_hold_gpu_state(host.images()) {
            predecessor::wait_for_dying_processes(host);
            System::read_live().ok()
        } else {
            None
        };
        Self {
            config,
            board,
            work_dir,
            criu_view,
            nodes: Nodes::of_criu(),
            results: Results::default(),
            own_record: OwnRecord::default(),
            this_task: ThisTask::default(),
        }
    }

    /// Opens a dumped file again, in the task (`RESTORE_EXT_FILE`). The first GPU file of a task restores
    /// all of the task's GPU state.
    pub fn restore_file(&mut self, host: &dyn Host, id: FileId) -> Outcome<OwnedFd, RestoreError> {
        self.open_file(host, id).into()
    }

    /// The new place of a device mapping, in the task (`UPDATE_VMA_MAP`).
    ///
    /// CRIU ignores a failure of this hook, so a mapping without a new place gets a file that cannot be
    /// mapped: then the restore does fail.
    pub fn update_mapping(
        &mut self,
        host: &dyn Host,
        path: &Path,
        addr: u64,
        pgoff: u64,
    ) -> Outcome<VmaAnswer, RestoreError> {
        let task = match &self.this_task {
            ThisTask::Restored(task) => Some(&**task),
            ThisTask::Untouched | ThisTask::Failed => None,
        };
        mappings::answer(host, task, path, addr, pgoff)
    }

    /// Lets the queues of a restored task run, in CRIU (`RESUME_DEVICES_LATE`). `pid` is the task's, as
    /// CRIU sees it.
    ///
    /// CRIU ignores the result. A task that could not be resumed would hang in silence, so it is killed:
    /// CRIU then reports a failed restore.
    pub fn resume(&mut self, host: &dyn Host, pid: i32) -> Outcome<(), RestoreError> {
        let tasks = self.board.tasks();
        if tasks.is_empty() {
            return Outcome::NotMine;
        }
        let ns_pid = match innermost_pid(pid) {
            Ok(ns_pid) => ns_pid,
            Err(error) => return Outcome::Failed(error),
        };
        let Some((slot, _, stage)) = tasks.into_iter().find(|(_, task, _)| *task == ns_pid) else {
            return Outcome::NotMine;
        };
        let answer = match stage {
            TaskStage::Contents => {
                self.board.set(slot, TaskStage::Resumed);
                Kfd::open(KFD_PATH.as_ref(), Access::ReadWrite)
                    .and_then(|kfd| kfd.resume(pid.cast_unsigned()))
                    .map_err(|source| RestoreError::Kfd {
                        pid: ns_pid,
                        source,
                    })
            }
            TaskStage::Resumed => return Outcome::NotMine,
            TaskStage::Begun | TaskStage::Records => Err(RestoreError::Earlier { pid: ns_pid }),
        };
        self.results.add(ns_pid, stage, Some(answer.as_ref()));
        let written = self.write_results(host);
        let failed = answer.err().or(written.err());
        let Some(error) = failed else {
            log_at!(
                host,
                Info,
                "Process {pid} (pid {ns_pid} in the images) is resumed"
            );
            return Outcome::Done(());
        };
        log_at!(
            host,
            Error,
            "Process {pid} is killed: its GPU queues cannot be resumed"
        );
        if let Some(pid) = Pid::from_raw(pid)
            && let Err(errno) = kill_process(pid, Signal::KILL)
        {
            log_at!(
                host,
                Error,
                "Cannot kill process {}: {errno}",
                pid.as_raw_nonzero()
            );
        }
        Outcome::Failed(error)
    }

    /// Ends the restore, in CRIU (`exit`).
    pub fn finish(mut self, host: &dyn Host, succeeded: bool) {
        let tasks = self.board.tasks();
        let unfinished: Vec<_> = tasks
            .iter()
            .filter(|(_, pid, _)| !self.results.knows(*pid))
            .collect();
        for (_, pid, stage) in &unfinished {
            self.results.add(*pid, *stage, None);
            if succeeded {
                log_at!(host, Error, "GPU process {pid} was never resumed");
            }
        }
        if !unfinished.is_empty()
            && let Err(error) = self.write_results(host)
        {
            log_at!(host, Error, "{}", crate::error::chain(&error));
        }
    }

    /// Writes the result file. Where it cannot be written (images that are mounted read-only), the restore is
    /// as good without it, and whoever relies on it finds none; but none may be left that tells otherwise.
    fn write_results(&self, host: &dyn Host) -> Result<(), RestoreError> {
        let work_dir = self.work_dir.as_deref();
        self.results.write(work_dir).or_else(|error| {
            let error = Results::remove(work_dir).err().map_or(Ok(error), Err)?;
            log_at!(
                host,
                Warn,
                "No result file: {}",
                crate::error::chain(&error)
            );
            Ok(())
        })
    }

    fn open_file(&mut self, host: &dyn Host, id: FileId) -> Result<Option<OwnedFd>, RestoreError> {
        let images = host.images();
        let record = read_image::<FileRecord>(images, &names::file_record(id))?;
        let Some(record) = record else {
            return self.open_unrecorded(host, id);
        };
        let pid = own_pid();
        if record.task != pid {
            let image_pid = record.task;
            return Err(RestoreError::WrongProcess { id, image_pid, pid });
        }
        let flags = OFlags::from_bits_retain(record.status_flags);
        let file = match record.kind {
            FileKind::Kfd => {
                let task = self.task(host, id, recorded_task)?;
                with_flags(task.kfd_file(host)?, flags, "/dev/kfd")?
            }
            FileKind::KfdAlias { .. } => {
                self.nodes.kfd(host)?;
                let kfd =
                    Kfd::open(KFD_PATH.as_ref(), Access::of_flags(flags)).map_err(|source| {
                        RestoreError::Kfd {
                            pid: own_pid(),
                            source,
                        }
                    })?;
                with_flags(kfd.into_fd(), flags, "/dev/kfd")?
            }
            FileKind::Render { gpu, primary } => {
                let name = names::render(id);
                let image = read_image::<RenderImage>(images, &name)?;
                let image = image.ok_or(RestoreError::MissingImage { name })?;
                check_render(id, &image, Some(gpu))?;
                let task = self.task(host, id, recorded_task)?;
                let name = task.node_name(gpu)?;
                let file = if primary {
                    task.render_file(host, gpu)?
                } else {
                    let path = render_node_path(task.render_minor(gpu)?);
                    RenderNode::open_as(&path, Access::of_flags(flags))
                        .map_err(|source| RestoreError::Kfd {
                            pid: own_pid(),
                            source,
                        })?
                        .into_fd()
                };
                with_flags(file, flags, &name)?
            }
        };
        Ok(Some(file))
    }

    /// A file of images that the C plugin wrote: told by the name that exists, in its own order.
    fn open_unrecorded(
        &mut self,
        host: &dyn Host,
        id: FileId,
    ) -> Result<Option<OwnedFd>, RestoreError> {
        let images = host.images();
        if self.own_record.exists(images, own_pid())? {
            // Our dump writes a record of each GPU file, and may have been the only one to take this.
            return if has_gpu_image(images, id)? {
                let name = names::file_record(id);
                Err(RestoreError::MissingImage { name })
            } else {
                Ok(None)
            };
        }
        if let Some(image) = read_image::<KfdImage>(images, &names::kfd(id))? {
            let task = self.task(host, id, |_, _, _| {
                Ok(Some(TaskImages {
                    kfd_file: id,
                    kfd: image,
                    record: None,
                }))
            })?;
            return Ok(Some(task.kfd_file(host)?));
        }
        if let Some(image) = read_image::<RenderImage>(images, &names::render(id))? {
            let task = self.task(host, id, |_, images, pid| find_task(images, pid, id))?;
            check_render(id, &image, None)?;
            // That plugin keeps no account of which file is KFD's, and merges all of a GPU into one.
            return Ok(Some(task.render_file(host, image.gpu)?));
        }
        let dmabuf = read_image::<DmabufImage>(images, &names::dmabuf(id))?;
        if dmabuf.is_some() {
            Err(RestoreError::DmaBuf { id })
        } else {
            Ok(None)
        }
    }

    /// The restored GPU state of this task, made now if this is the first call.
    fn task(
        &mut self,
        host: &dyn Host,
        id: FileId,
        read: impl FnOnce(
            &mut OwnRecord,
            &dyn ImageDir,
            TaskPid,
        ) -> Result<Option<TaskImages>, RestoreError>,
    ) -> Result<&mut RestoredTask, RestoreError> {
        let pid = own_pid();
        match std::mem::replace(&mut self.this_task, ThisTask::Failed) {
            ThisTask::Failed => return Err(RestoreError::Earlier { pid }),
            ThisTask::Restored(task) => {
                self.this_task = ThisTask::Restored(task);
            }
            ThisTask::Untouched => {
                let images = read(&mut self.own_record, host.images(), pid)?
                    .ok_or(RestoreError::NoKfdImage { pid, id })?;
                if images.kfd.pid != pid {
                    let image_pid = images.kfd.pid;
                    return Err(RestoreError::WrongProcess { id, image_pid, pid });
                }
                let slot = self.claim(pid)?;
                let task = RestoredTask::restore(
                    host,
                    &self.config,
                    (self.criu_view.as_ref(), self.nodes),
                    (&self.board, slot),
                    images,
                )?;
                self.this_task = ThisTask::Restored(Box::new(task));
            }
        }
        match &mut self.this_task {
            ThisTask::Restored(task) => Ok(task),
            ThisTask::Untouched | ThisTask::Failed => Err(RestoreError::Earlier { pid }),
        }
    }

    fn claim(&self, pid: TaskPid) -> Result<TaskSlot, RestoreError> {
        self.board
            .claim(pid)
            .ok_or_else(|| RestoreError::TooManyTasks {
                max: self.board.capacity(),
            })
    }
}

/// Can the images hold GPU state? Told by their names, where they can be listed.
fn may_hold_gpu_state(images: &dyn ImageDir) -> bool {
    match images.list() {
        Ok(Some(names)) => names.iter().any(|name| names::parse_kfd(name).is_some()),
        Ok(None) | Err(_) => true,
    }
}

/// Refuses a render node with GEM objects, or of another GPU than our own record says.
fn check_render(
    id: FileId,
    image: &RenderImage,
    recorded: Option<UserGpuId>,
) -> Result<(), RestoreError> {
    if let Some(gpu) = recorded.filter(|gpu| *gpu != image.gpu) {
        return Err(RestoreError::OtherGpu {
            id,
            image: image.gpu,
            record: gpu,
        });
    }
    match image.bos.len() {
        0 => Ok(()),
        count => Err(RestoreError::GemObjects { id, count }),
    }
}

/// Is there an image of the C plugin's for this file?
fn has_gpu_image(images: &dyn ImageDir, id: FileId) -> Result<bool, RestoreError> {
    Ok(read_image::<KfdImage>(images, &names::kfd(id))?.is_some()
        || read_image::<RenderImage>(images, &names::render(id))?.is_some())
}

/// The images of a task's GPU state as our dump has left them.
fn recorded_task(
    own_record: &mut OwnRecord,
    images: &dyn ImageDir,
    pid: TaskPid,
) -> Result<Option<TaskImages>, RestoreError> {
    let record = own_record.take(images, pid)?;
    let record = record.ok_or_else(|| RestoreError::MissingImage {
        name: names::task_record(pid),
    })?;
    let kfd_file = record.kfd_file;
    let name = names::kfd(kfd_file);
    let kfd = read_image::<KfdImage>(images, &name)?;
    Ok(Some(TaskImages {
        kfd_file,
        kfd: kfd.ok_or(RestoreError::MissingImage { name })?,
        record: Some(*record),
    }))
}

/// The same where the C plugin wrote them: by looking at every `amdgpu-kfd` image.
fn find_task(
    images: &dyn ImageDir,
    pid: TaskPid,
    id: FileId,
) -> Result<Option<TaskImages>, RestoreError> {
    let names = images.list().map_err(|source| RestoreError::System {
        what: "the folder of images".to_owned(),
        source,
    })?;
    for kfd_file in names
        .ok_or(RestoreError::Unsearchable { pid, id })?
        .iter()
        .filter_map(|name| names::parse_kfd(name))
    {
        if let Some(kfd) = read_image::<KfdImage>(images, &names::kfd(kfd_file))?
            && kfd.pid == pid
        {
            return Ok(Some(TaskImages {
                kfd_file,
                kfd,
                record: None,
            }));
        }
    }
    Ok(None)
}

fn own_pid() -> TaskPid {
    TaskPid(getpid().as_raw_nonzero().get().cast_unsigned())
}

/// Gives an open file the status flags that it had. The access mode was given when it was opened.
fn with_flags(file: OwnedFd, flags: OFlags, what: &str) -> Result<OwnedFd, RestoreError> {
    let settable = flags & (OFlags::APPEND | OFlags::NONBLOCK | OFlags::DIRECT | OFlags::NOATIME);
    rustix::fs::fcntl_setfl(file.as_fd(), settable).map_err(|errno| RestoreError::System {
        what: what.to_owned(),
        source: errno.into(),
    })?;
    Ok(file)
}
