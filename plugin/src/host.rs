//! [`Host`] over the CRIU that has loaded the plugin.

use std::cell::Cell;
use std::ffi::{CString, c_int};
use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rocferry_gpu::{FdStoreId, Host, LogLevel};
use rocferry_image::{FdDir, ImageDir};

use crate::symbols::Symbols;

/// Name in the descriptor, and in the inventory of the images.
pub(crate) const PLUGIN_NAME: &std::ffi::CStr = c"amdgpu_plugin";

/// `IMG_STREAMER_FD_OFF` of `criu/include/servicefd.h`: open only with `--stream`.
const STREAMER_FD: c_int = 3;
/// `CR_PROC_FD_OFF` there: CRIU's own /proc while a task is restored.
const CRIU_PROC_FD: c_int = 7;
/// `O_DUMP` and `O_RSTR` of `criu/include/image.h`.
const STREAM_WRITE: c_int = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC;
const STREAM_READ: c_int = libc::O_RDONLY;

/// CRIU, through the functions that it exports.
#[derive(Clone, Debug)]
pub(crate) struct CriuHost {
    symbols: Symbols,
    claimed: Cell<bool>,
}

impl CriuHost {
    pub(crate) fn new(symbols: Symbols) -> Self {
        Self {
            symbols,
            claimed: Cell::new(false),
        }
    }

    /// Is the plugin named in the images' inventory, or are they older than that list? Takes the name off
    /// it: CRIU fails the restore when a name stays.
    pub(crate) fn named_in_inventory(&self) -> bool {
        let name = PLUGIN_NAME;
        self.symbols
            .check_and_remove_inventory_plugin
            .is_none_or(|check| {
                // SAFETY: CRIU compares `n` bytes of the name with its own list.
                unsafe { check(name.as_ptr(), name.count_bytes()) }
            })
    }

    fn service_fd(&self, kind: c_int) -> Option<BorrowedFd<'_>> {
        // SAFETY: a look-up in CRIU's own table.
        let number = unsafe { (self.symbols.get_service_fd)(kind) };
        // SAFETY: CRIU keeps a service descriptor open for as long as hooks run.
        (number >= 0).then(|| unsafe { BorrowedFd::borrow_raw(number) })
    }

    fn image_dir(&self) -> Option<BorrowedFd<'_>> {
        // SAFETY: no arguments; returns the service descriptor of the image directory.
        let number = unsafe { (self.symbols.criu_get_image_dir)() };
        // SAFETY: as above: open until CRIU ends.
        (number >= 0).then(|| unsafe { BorrowedFd::borrow_raw(number) })
    }

    /// Opens an image at CRIU's streamer: a pipe. `None` when a name to be read is not in the stream.
    fn stream(&self, name: &str, flags: c_int) -> io::Result<Option<OwnedFd>> {
        let open = self
            .symbols
            .img_streamer_open
            .ok_or(io::ErrorKind::Unsupported)?;
        let name = CString::new(name).map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: CRIU sends the name over its socket and does not write to it.
        let number = unsafe { open(name.as_ptr().cast_mut(), flags) };
        match number {
            // SAFETY: a descriptor that CRIU has just opened for the caller.
            number if number >= 0 => Ok(Some(unsafe { OwnedFd::from_raw_fd(number) })),
            number if number == -libc::ENOENT => Ok(None),
            _ => Err(io::Error::other("no answer from CRIU's image streamer")),
        }
    }
}

impl ImageDir for CriuHost {
    fn create(&self, name: &str) -> io::Result<OwnedFd> {
        if self.is_stream() {
            return self
                .stream(name, STREAM_WRITE)?
                .ok_or_else(|| io::ErrorKind::NotFound.into());
        }
        let dir = self.image_dir().ok_or(io::ErrorKind::NotConnected)?;
        FdDir(dir).create(name)
    }

    fn open(&self, name: &str) -> io::Result<Option<OwnedFd>> {
        if self.is_stream() {
            return self.stream(name, STREAM_READ);
        }
        let dir = self.image_dir().ok_or(io::ErrorKind::NotConnected)?;
        FdDir(dir).open(name)
    }

    fn list(&self) -> io::Result<Option<Vec<String>>> {
        if self.is_stream() {
            return Ok(None);
        }
        let dir = self.image_dir().ok_or(io::ErrorKind::NotConnected)?;
        FdDir(dir).list()
    }

    fn is_stream(&self) -> bool {
        self.service_fd(STREAMER_FD).is_some()
    }
}

impl Host for CriuHost {
    fn log(&self, level: LogLevel, line: fmt::Arguments<'_>) {
        let text = format!("amdgpu_plugin: {line}").replace('\0', "?");
        let Some(print) = self.symbols.print_on_level else {
            eprintln!("{text}");
            return;
        };
        // CRIU's buffer holds 1024 bytes, its own prefix included, and what does not fit is lost.
        for part in chunks(&text, 900) {
            if let Ok(line) = CString::new(part) {
                // SAFETY: the text is an argument, never the format.
                unsafe { print(level as u32, c"%s\n".as_ptr(), line.as_ptr()) };
            }
        }
    }

    fn logs(&self, level: LogLevel) -> bool {
        // SAFETY: no arguments; reads a variable.
        self.symbols
            .log_get_loglevel
            .is_none_or(|get| unsafe { get() } >= level as u32)
    }

    fn images(&self) -> &dyn ImageDir {
        self
    }

    fn fdstore_add(&self, fd: BorrowedFd<'_>) -> io::Result<FdStoreId> {
        // SAFETY: CRIU sends the descriptor over its socket and leaves the number alone.
        let id = unsafe { (self.symbols.fdstore_add)(fd.as_raw_fd()) };
        if id >= 0 {
            Ok(FdStoreId(id))
        } else {
            Err(io::Error::other("fdstore_add failed"))
        }
    }

    fn fdstore_get(&self, id: FdStoreId) -> io::Result<OwnedFd> {
        // SAFETY: CRIU looks the id up and receives a new descriptor for the caller.
        let number = unsafe { (self.symbols.fdstore_get)(id.0) };
        if number < 0 {
            return Err(io::Error::other("fdstore_get failed"));
        }
        // SAFETY: the number was made for this call and belongs to the caller.
        Ok(unsafe { OwnedFd::from_raw_fd(number) })
    }

    fn claim_inventory(&self) {
        if self.claimed.replace(true) {
            return;
        }
        if let Some(add) = self.symbols.add_inventory_plugin {
            // SAFETY: CRIU copies the name.
            let result = unsafe { add(PLUGIN_NAME.as_ptr()) };
            if result != 0 {
                // The claim is tried again with the next object; a restore without the entry fails.
                self.claimed.set(false);
                self.log(
                    LogLevel::Error,
                    format_args!("Cannot add the plugin to the inventory"),
                );
            }
        }
    }

    fn criu_proc(&self) -> Option<BorrowedFd<'_>> {
        self.service_fd(CRIU_PROC_FD)
    }

    fn takes_over_vma_fd(&self) -> bool {
        self.symbols.takes_over_vma_fd
    }
}

/// Pieces of at most `most` bytes, cut between characters.
fn chunks(text: &str, most: usize) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let mut end = rest.len().min(most);
        while !rest.is_char_boundary(end) {
            end -= 1;
        }
        let (part, left) = rest.split_at(end);
        rest = left;
        Some(part)
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn long_lines_are_cut_between_characters() {
        let text = "aé".repeat(5);
        let parts: Vec<_> = super::chunks(&text, 4).collect();
        assert_eq!(parts.concat(), text);
        assert!(parts.iter().all(|part| part.len() <= 4));
        assert_eq!(super::chunks("", 4).count(), 0);
    }
}
