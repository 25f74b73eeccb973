//! Images that are truncated, altered or not there: refused with the name of the file, and nothing left.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::failures::{self, MACHINE, dump_over_longer_images, start};
use super::round_trip::OTHER;
use crate::case::{Case, Lab, On};
use crate::image_files;
use crate::proc;
use crate::workload::Workload;

const fn case(name: &'static str, run: fn(&mut Lab) -> Result<()>) -> Case {
    Case {
        name,
        on: On::Newest,
        limit_s: 240,
        run,
    }
}

pub(crate) const CASES: &[Case] = &[
    case("damage/truncated_images", truncated_images),
    case("damage/flipped_bits", flipped_bits),
    case("damage/missing_images", missing_images),
    case("damage/any_bit_of_the_kfd_image", any_bit_of_the_kfd_image),
    case("damage/dump_over_longer_images", dump_over_longer_images),
];

/// Beginnings of the names of all kinds of images.
const KINDS: [&str; 6] = [
    "amdgpu-pages-",
    "amdgpu-kfd-",
    "amdgpu-renderD-",
    "rocferry-index-",
    "rocferry-task-",
    "rocferry-file-",
];

/// A dumped process and its images, of which damaged copies are made.
struct Dumped {
    workload: Workload,
    dump: crate::trip::Dump,
}

impl Dumped {
    fn new(lab: &mut Lab) -> Result<Self> {
        let workload = start(lab)?;
        let dump = lab.dump(&workload)?;
        Ok(Self { workload, dump })
    }

    /// Restores a copy in which `damage` was done to the image whose name begins with `kind`: refused by
    /// name.
    fn refused(
        &self,
        lab: &mut Lab,
        kind: &str,
        damage: impl FnOnce(&Path, Vec<u8>) -> Result<()>,
    ) -> Result<()> {
        let copy = self.copy(lab)?;
        let image = image_files::one(&copy, kind)?;
        let name = image
            .file_name()
            .and_then(|name| name.to_str())
            .context("name")?;
        damage(&image, fs::read(&image)?)?;
        let ended = lab
            .failing_restore(&copy, self.workload.pid, &[], &[])
            .with_context(|| name.to_owned())?;
        let named = |line: &&str| line.contains("amdgpu_plugin:") && line.contains(name);
        ensure!(
            ended.log.lines().any(|line| named(&line)),
            "the log does not name {name}: {}",
            ended.story()
        );
        fs::remove_dir_all(&copy)?;
        Ok(())
    }

    fn copy(&self, lab: &mut Lab) -> Result<PathBuf> {
        let copy = lab.folder("copy")?;
        image_files::copy_all(&self.dump.images, &copy)?;
        Ok(copy)
    }

    /// The images themselves are whole.
    fn restored(mut self, lab: &Lab) -> Result<()> {
        lab.restore(&mut self.workload, &self.dump)?;
        self.workload.prove()?;
        self.workload.finish()
    }
}

/// Ended within the header, after it, in the middle, and one byte too early (F1, F17, F29).
pub(super) fn truncated_images(lab: &mut Lab) -> Result<()> {
    let dumped = Dumped::new(lab)?;
    for kind in KINDS {
        for keep in [|_| 4, |_| 8, |len| len - 1] as [fn(usize) -> usize; 3] {
            dumped.refused(lab, kind, |image, mut bytes| {
                bytes.truncate(keep(bytes.len()));
                Ok(fs::write(image, bytes)?)
            })?;
        }
    }
    dumped.restored(lab)
}

/// A bit in the header, in the first field, and, where there is a digest, in the contents.
pub(super) fn flipped_bits(lab: &mut Lab) -> Result<()> {
    let dumped = Dumped::new(lab)?;
    for kind in KINDS {
        // The length of the content becomes 2^40 more; the first field becomes another of a wrong type.
        for (at, bit) in [(5, 0), (8, 2)] {
            // Any byte is as good as another there.
            if kind == "amdgpu-pages-" && at == 8 {
                continue;
            }
            dumped
                .refused(lab, kind, |image, mut bytes| {
                    bytes[at] ^= 1 << bit;
                    Ok(fs::write(image, bytes)?)
                })
                .with_context(|| format!("bit {bit} of byte {at}"))?;
        }
    }
    let copy = dumped.copy(lab)?;
    let pages = image_files::one(&copy, "amdgpu-pages-")?;
    let mut bytes = fs::read(&pages)?;
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    fs::write(&pages, bytes)?;
    lab.failing_restore(
        &copy,
        dumped.workload.pid,
        &[],
        &["is damaged", "BLAKE3", " of GPU 0x"],
    )?;
    // A digest that does not belong to the contents.
    let copy = dumped.copy(lab)?;
    let index = image_files::one(&copy, "rocferry-index-")?;
    let mut bytes = fs::read(&index)?;
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&index, bytes)?;
    lab.failing_restore(&copy, dumped.workload.pid, &[], &["BLAKE3"])?;
    dumped.restored(lab)
}

/// A set of images of this plugin is whole, or refused.
pub(super) fn missing_images(lab: &mut Lab) -> Result<()> {
    let dumped = Dumped::new(lab)?;
    for kind in KINDS {
        dumped.refused(lab, kind, |image, _| Ok(fs::remove_file(image)?))?;
    }
    dumped.restored(lab)
}

/// One bit in each of many places of the kfd image: whatever comes of it, CRIU is not ended by a signal, and a
/// restore that fails leaves nothing (F17, F24, F29).
pub(super) fn any_bit_of_the_kfd_image(lab: &mut Lab) -> Result<()> {
    const PLACES: usize = 16;
    let dumped = Dumped::new(lab)?;
    let length = fs::metadata(image_files::one(&dumped.dump.images, "amdgpu-kfd-")?)?.len();
    let length = usize::try_from(length)?;
    for place in 0..PLACES {
        let copy = dumped.copy(lab)?;
        let image = image_files::one(&copy, "amdgpu-kfd-")?;
        let mut bytes = fs::read(&image)?;
        // The part with the records of nodes and BOs comes first and has the most to break.
        let at = 8 + (length - 8) * place / (PLACES * 2);
        bytes[at] ^= 1 << (place % 8);
        fs::write(&image, bytes)?;
        let (ended, pid) = lab.criu.try_restore(&copy, &[])?;
        ensure!(
            ended.code >= 0,
            "byte {at}: CRIU was ended by a signal: {}",
            ended.story()
        );
        match (ended.code, pid) {
            (0, Some(pid)) => proc::kill_tree(pid)?,
            // The simulator warns of records that it finds altered.
            _ => lab
                .nobody_left(dumped.workload.pid)
                .with_context(|| ended.story())?,
        }
        fs::remove_dir_all(&copy)?;
    }
    dumped.restored(lab)
}

/// The fields of the thunk's old shared memory are kept and never looked at (F27): here they name one that
/// this machine does not have.
pub(super) fn shared_memory_of_old_thunks(lab: &mut Lab) -> Result<()> {
    let dumped = Dumped::new(lab)?;
    let image = image_files::one(&dumped.dump.images, "amdgpu-kfd-")?;
    let mut bytes = fs::read(&image)?;
    // Fields 8 and 9, 0, and the key of field 10.
    let none = [0x40, 0, 0x48, 0, 0x52];
    let at = bytes.windows(none.len()).rposition(|window| window == none);
    let at = at.context("no shared memory fields in the kfd image")?;
    (bytes[at + 1], bytes[at + 3]) = (0x40, 0x11);
    fs::write(&image, bytes)?;
    ensure!(!fs::exists("/dev/shm/hsakmt_shared_mem")?, "there is one");
    lab.sim.load(&format!("{MACHINE} {OTHER}"))?;
    dumped.restored(lab)
}

/// What a failed copy or a short file leaves is not taken for a success (F1).
pub(super) fn errors_are_not_lost(lab: &mut Lab) -> Result<()> {
    let dumped = Dumped::new(lab)?;
    dumped.refused(lab, "amdgpu-pages-", |image, mut bytes| {
        bytes.truncate(bytes.len() - 4096);
        Ok(fs::write(image, bytes)?)
    })?;
    lab.sim.fault(failures::SDMA_FAILS.arm)?;
    lab.failing_restore(
        &dumped.dump.images,
        dumped.workload.pid,
        &[],
        failures::SDMA_FAILS.words,
    )?;
    lab.sim.clear_faults()?;
    dumped.restored(lab)
}
