//! The dump of one tree, across all its hooks.

use std::os::fd::{AsRawFd, BorrowedFd};

use rocferry_image::FileId;
use rocferry_kfd::Kfd;
use rocferry_kfd::kfd::{Access, INTERFACE_MAJOR, INTERFACE_MINOR_MIN};

use super::process::PausedProcess;
use super::{contents, gem, images, mappings};
use crate::config::Config;
use crate::device::{Device, Devices, KFD_PATH};
use crate::error::{DumpError, system};
use crate::host::{Host, log_at};
use crate::outcome::Outcome;
use crate::tracee::{Tracee, Tracees, restores_shared_file};

/// Everything a dump knows between hooks. Made in `init`, ended by [`Self::finish`] in `exit`.
#[derive(Debug)]
pub struct DumpSession {
    config: Config,
    devices: Option<Devices>,
    /// The tasks, once all of them were looked at.
    tracees: Option<Tracees>,
    processes: Vec<PausedProcess>,
}

impl DumpSession {
    /// A dump that has seen nothing yet. Reads nothing: most dumps have no GPU in them.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            devices: None,
            tracees: None,
            processes: Vec::new(),
        }
    }

    /// Does a mapped device with this mode and number (`st_mode` and `st_rdev` of its inode) belong to the
    /// plugin (`HANDLE_DEVICE_VMA`)? CRIU does not say whose mapping it is, so the first one has the
    /// mappings of all tasks looked at.
    pub fn accepts_mapping(
        &mut self,
        host: &dyn Host,
        mode: u32,
        rdev: u64,
    ) -> Outcome<(), DumpError> {
        let device = self.devices(host).classify(mode, rdev);
        if device.is_none() {
            return Outcome::NotMine;
        }
        host.claim_inventory();
        match self.look_at_tasks(host) {
            Ok(()) => Outcome::Done(()),
            Err(error) => Outcome::Failed(error),
        }
    }

    /// Dumps an open file if it is a GPU's (`DUMP_EXT_FILE`). `id` is CRIU's id of the file.
    ///
    /// The first GPU file of a process pauses the process and takes its checkpoint; its first `/dev/kfd`
    /// file saves all contents.
    pub fn dump_file(
        &mut self,
        host: &dyn Host,
        file: BorrowedFd<'_>,
        id: FileId,
    ) -> Outcome<(), DumpError> {
        let stat = match rustix::fs::fstat(file) {
            Ok(stat) => stat,
            Err(errno) => return Outcome::Failed(system(format!("open file {id}"))(errno.into())),
        };
        let device = self.devices(host).classify(stat.st_mode, stat.st_rdev);
        match device {
            Some(device) => {
                host.claim_inventory();
                self.dump_device(host, file, id, device)
                    .map(Shown::saved)
                    .into()
            }
            None => match gem::foreign_dma_buf(file, id, self.devices(host)) {
                Ok(()) => Outcome::NotMine,
                Err(error) => Outcome::Failed(error),
            },
        }
    }

    /// Resumes the queues of every paused process, whatever has happened (`exit`).
    ///
    /// CRIU calls this on success and on failure, while the tasks are still stopped and traced. All are
    /// tried; an UNPAUSE that fails can only be reported.
    pub fn finish(self, host: &dyn Host) {
        for process in self.processes {
            process.unpause(host);
        }
    }

    fn devices(&mut self, host: &dyn Host) -> &Devices {
        self.devices.get_or_insert_with(|| Devices::read(host))
    }

    /// Collects the tasks of the dump, once: they stay stopped until its end.
    fn look_at_tasks(&mut self, host: &dyn Host) -> Result<(), DumpError> {
        if self.tracees.is_none() {
            let devices = self.devices.get_or_insert_with(|| Devices::read(host));
            let tracees =
                Tracees::collect(devices).map_err(system("the tasks under /proc".to_owned()))?;
            mappings::check_all_tasks(&tracees, devices)?;
            self.tracees = Some(tracees);
        }
        Ok(())
    }

    fn dump_device(
        &mut self,
        host: &dyn Host,
        file: BorrowedFd<'_>,
        id: FileId,
        device: Device,
    ) -> Result<Shown, DumpError> {
        self.look_at_tasks(host)?;
        let devices = self.devices.get_or_insert_with(|| Devices::read(host));
        let Some(tracees) = &self.tracees else {
            return no_owner(host, &[], device, id);
        };
        let holders = tracees
            .holders(file, device)
            .map_err(system(format!("who holds file {id}")))?;
        let Some(owner) = tracees.owner(&holders) else {
            return no_owner(host, &holders, device, id);
        };
        if let Some(first) = restores_shared_file(&holders)
            && first.pid != owner.pid
        {
            return Err(DumpError::SharedWithLowerPid {
                owner: owner.ns_pid,
                other: first.ns_pid,
            });
        }
        let place = match self
            .processes
            .iter()
            .position(|known| known.pid() == owner.pid)
        {
            Some(place) => place,
            None => {
                if self
                    .processes
                    .iter()
                    .any(|known| known.ns_pid() == owner.ns_pid)
                {
                    return Err(DumpError::SamePid {
                        ns_pid: owner.ns_pid,
                    });
                }
                check_version(host)?;
                // Registered before anything else can fail: from here on `finish` has to resume it.
                self.processes
                    .push(PausedProcess::pause(host, owner, tracees)?);
                let place = self.processes.len() - 1;
                let process = &mut self.processes[place];
                process.checkpoint(host, owner, devices)?;
                process.vmas = mappings::of_process(process, devices)?;
                place
            }
        };
        let process = &mut self.processes[place];
        match device {
            Device::Kfd => match process.kfd_file {
                None => {
                    process.kfd_file = Some(id);
                    let image = images::kfd_image(process, devices)?;
                    contents::save(host, process, id, &image, &self.config, devices)?;
                    images::write_kfd(host, process, id, file, &image, devices)?;
                }
                Some(first) => images::write_kfd_alias(host, process, id, first, file)?,
            },
            Device::Render(minor) => {
                gem::refuse_objects(file, id, minor)?;
                images::write_render(host, process, id, minor, file, owner, devices)?;
            }
        }
        log_at!(
            host,
            Debug,
            "File {id} ({device:?}, descriptor {}) is saved",
            file.as_raw_fd()
        );
        Ok(Shown::Saved)
    }
}

/// What became of a GPU file that CRIU showed.
enum Shown {
    Saved,
    /// Refused with a line in the log; another plugin may still take it.
    Refused,
}

impl Shown {
    fn saved(self) -> Option<()> {
        match self {
            Self::Saved => Some(()),
            Self::Refused => None,
        }
    }
}

/// A file whose holders KFD does not know: a process that uses a render node alone, or a dead opener.
fn no_owner(
    host: &dyn Host,
    holders: &[&Tracee],
    device: Device,
    id: FileId,
) -> Result<Shown, DumpError> {
    if let (Device::Render(minor), Some(holder)) = (device, holders.first()) {
        log_at!(
            host,
            Error,
            "File {id} is {} of process {}, which has no KFD context: processes that use a render node \
             without /dev/kfd cannot be restored yet",
            minor,
            holder.pid.as_raw_nonzero()
        );
        return Ok(Shown::Refused);
    }
    let file = match device {
        Device::Kfd => "/dev/kfd".to_owned(),
        Device::Render(minor) => minor.to_string(),
    };
    Err(DumpError::NoOwner { id, file })
}

/// `CRIU_OP` came with 1.7, copies of GTT BOs by SDMA with 1.8.
fn check_version(host: &dyn Host) -> Result<(), DumpError> {
    let version = Kfd::open(KFD_PATH.as_ref(), Access::ReadOnly)
        .and_then(|kfd| kfd.version())
        .map_err(|source| DumpError::Kfd { pid: 0, source })?;
    log_at!(
        host,
        Debug,
        "KFD interface {}.{}",
        version.major,
        version.minor
    );
    if version.major == INTERFACE_MAJOR && version.minor >= INTERFACE_MINOR_MIN {
        return Ok(());
    }
    Err(DumpError::KfdTooOld {
        major: version.major,
        minor: version.minor,
    })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::fmt;
    use std::io;
    use std::os::fd::{AsFd, OwnedFd};

    use rocferry_image::ImageDir;
    use rocferry_kfd::DeviceNumber;

    use super::*;
    use crate::device::tests::{block, character, devices};
    use crate::host::{FdStoreId, LogLevel};

    /// A CRIU that only counts how often the plugin wants to be named in the inventory.
    #[derive(Default)]
    struct Claims(Cell<u32>);

    impl Host for Claims {
        fn log(&self, _: LogLevel, _: fmt::Arguments<'_>) {}
        fn logs(&self, _: LogLevel) -> bool {
            false
        }
        fn images(&self) -> &dyn ImageDir {
            unreachable!("no image is written")
        }
        fn fdstore_add(&self, _: BorrowedFd<'_>) -> io::Result<FdStoreId> {
            Err(io::ErrorKind::Unsupported.into())
        }
        fn fdstore_get(&self, _: FdStoreId) -> io::Result<OwnedFd> {
            Err(io::ErrorKind::Unsupported.into())
        }
        fn claim_inventory(&self) {
            self.0.set(self.0.get() + 1);
        }
        fn criu_proc(&self) -> Option<BorrowedFd<'_>> {
            None
        }
        fn takes_over_vma_fd(&self) -> bool {
            true
        }
    }

    fn session(kfd: DeviceNumber) -> DumpSession {
        let (config, _) = Config::from_lookup(|_| None);
        DumpSession {
            devices: Some(devices(kfd)),
            ..DumpSession::new(config)
        }
    }

    #[test]
    fn mapped_block_devices_with_our_numbers_are_left_to_criu() {
        let kfd = DeviceNumber {
            major: 511,
            minor: 0,
        };
        let render = DeviceNumber {
            major: 226,
            minor: 129,
        };
        for number in [kfd, render] {
            let host = Claims::default();
            let answer = session(kfd).accepts_mapping(&host, block(), number.raw());
            assert!(matches!(answer, Outcome::NotMine), "{number}");
            assert_eq!(host.0.get(), 0, "{number}");
            // This process has seized no task, so there is nothing that could be refused.
            let answer = session(kfd).accepts_mapping(&host, character(), number.raw());
            assert!(matches!(answer, Outcome::Done(())), "{number}");
            assert_eq!(host.0.get(), 1, "{number}");
        }
    }

    #[test]
    fn open_files_that_are_no_character_devices_are_left_to_criu() {
        let host = Claims::default();
        let null = std::fs::File::open("/dev/null").unwrap();
        // As if /dev/null were KFD's device: nobody holds it for this dump.
        let number = DeviceNumber::of(&null).unwrap().unwrap();
        let answer = session(number).dump_file(&host, null.as_fd(), FileId(1));
        assert!(
            matches!(answer, Outcome::Failed(DumpError::NoOwner { .. })),
            "{answer:?}"
        );
        assert_eq!(host.0.get(), 1);
        let file = tempfile::tempfile().unwrap();
        let answer = session(number).dump_file(&host, file.as_fd(), FileId(2));
        assert!(matches!(answer, Outcome::NotMine), "{answer:?}");
        assert_eq!(host.0.get(), 1);
    }
}
