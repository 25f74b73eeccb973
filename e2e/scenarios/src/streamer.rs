//! An image streamer of our own, for `criu --stream`.
//!
//! CRIU connects to a socket in its folder of images, asks for one image after the other by name and
//! passes one end of a pipe for each (`criu/img-streamer.c` of 3.17 to 4.2). As with criu-image-streamer, a
//! restore gets each image once; an image is written to its end before the next request is looked at; a
//! reader that goes away early, or opens a second image and leaves the first unread, is an error. The images
//! themselves lie in another folder.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

/// How long the reader of an image may do nothing.
const PATIENCE: Timespec = Timespec {
    tv_sec: 30,
    tv_nsec: 0,
};

/// The stream ends in the middle of an image.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    /// The first image whose name begins so.
    pub(crate) image: &'static str,
    /// Bytes of it that still pass.
    pub(crate) after: u64,
}

/// What a restore has asked for.
#[derive(Debug, Default)]
pub(crate) struct Served {
    /// Images that were delivered.
    pub(crate) names: BTreeSet<String>,
    /// Images that were asked for once more afterwards.
    pub(crate) again: Vec<String>,
}

/// A streamer at work.
pub(crate) struct Streamer<T> {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<T>>,
}

impl<T: Send + 'static> Streamer<T> {
    fn start(
        socket: &Path,
        work: impl FnOnce(UnixStream) -> Result<T> + Send + 'static,
    ) -> Result<Self> {
        let _ = fs::remove_file(socket);
        let listener = UnixListener::bind(socket)
            .with_context(|| format!("cannot listen at {}", socket.display()))?;
        listener.set_nonblocking(true)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || work(accept(&listener, &stopped)?));
        Ok(Self { stop, thread })
    }

    /// Waits for CRIU to hang up.
    pub(crate) fn finish(self) -> Result<T> {
        self.stop.store(true, Ordering::Relaxed);
        match self.thread.join() {
            Ok(result) => result.context("the streamer failed"),
            Err(_) => bail!("the streamer panicked"),
        }
    }
}

/// Receives the images of a dump into the folder `store`. `finish` gives their names.
pub(crate) fn capture(
    images: &Path,
    store: PathBuf,
    end: Option<End>,
) -> Result<Streamer<BTreeSet<String>>> {
    Streamer::start(&images.join("streamer-capture.sock"), move |criu| {
        receive_all(criu, &store, end)
    })
}

/// Serves the images in the folder `store` to a restore.
pub(crate) fn serve(images: &Path, store: PathBuf, end: Option<End>) -> Result<Streamer<Served>> {
    Streamer::start(&images.join("streamer-serve.sock"), move |criu| {
        serve_all(criu, &store, end)
    })
}

fn accept(listener: &UnixListener, stop: &AtomicBool) -> Result<UnixStream> {
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false)?;
                return Ok(stream);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                ensure!(!stop.load(Ordering::Relaxed), "CRIU has not connected");
                thread::sleep(Duration::from_millis(5));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Several images may be written at once, and each is received by a thread of its own.
fn receive_all(mut criu: UnixStream, store: &Path, end: Option<End>) -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    let mut receivers = Vec::new();
    let mut end = end;
    while let Some(name) = next_request(&mut criu)? {
        let mut pipe = File::from(receive_fd(&criu)?);
        let mut file = File::create(store.join(&name))?;
        let limit = end.take_if(|end| name.starts_with(end.image));
        ensure!(names.insert(name.clone()), "{name} is written twice");
        let socket = criu.try_clone()?;
        receivers.push(thread::spawn(move || -> io::Result<()> {
            let Some(End { after, .. }) = limit else {
                return io::copy(&mut pipe, &mut file).map(drop);
            };
            io::copy(&mut (&mut pipe).take(after), &mut file)?;
            socket.shutdown(std::net::Shutdown::Both)
        }));
    }
    for receiver in receivers {
        match receiver.join() {
            Ok(result) => result?,
            Err(_) => bail!("a receiver panicked"),
        }
    }
    Ok(names)
}

fn serve_all(mut criu: UnixStream, store: &Path, end: Option<End>) -> Result<Served> {
    let mut served = Served::default();
    while let Some(name) = next_request(&mut criu)? {
        let again = served.names.contains(&name);
        if again {
            served.again.push(name.clone());
        }
        let content = match fs::read(store.join(&name)) {
            Ok(content) if !again => content,
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            Ok(_) | Err(_) => {
                send_reply(&mut criu, false)?;
                continue;
            }
        };
        send_reply(&mut criu, true)?;
        let pipe = receive_fd(&criu)?;
        let cut = end.filter(|end| name.starts_with(end.image));
        let limit = cut.map_or(usize::MAX, |end| {
            usize::try_from(end.after).unwrap_or(usize::MAX)
        });
        let passing = content.len().min(limit);
        write_all(&pipe, &content[..passing]).with_context(|| format!("image {name}"))?;
        served.names.insert(name);
        if cut.is_some() {
            break;
        }
    }
    Ok(served)
}

/// Writes as the reader reads, and not for ever.
fn write_all(pipe: &OwnedFd, content: &[u8]) -> Result<()> {
    fcntl_setfl(pipe, fcntl_getfl(pipe)? | OFlags::NONBLOCK)?;
    let mut done = 0;
    while done < content.len() {
        match rustix::io::write(pipe, &content[done..]) {
            Ok(count) => done += count,
            Err(rustix::io::Errno::AGAIN) => {
                let mut ready = [PollFd::new(pipe, PollFlags::OUT)];
                ensure!(
                    poll(&mut ready, Some(&PATIENCE))? > 0,
                    "nobody reads on after {done} of {} bytes",
                    content.len()
                );
            }
            Err(errno) => bail!("{errno} after {done} of {} bytes", content.len()),
        }
    }
    Ok(())
}

/// The name in the next request; `None` when CRIU has hung up.
fn next_request(criu: &mut UnixStream) -> Result<Option<String>> {
    let mut length = [0; 4];
    match criu.read_exact(&mut length) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    let mut message = vec![0; u32::from_le_bytes(length) as usize];
    criu.read_exact(&mut message)?;
    // img_streamer_request_entry { required string filename = 1; }: names are shorter than 128 bytes, and
    // their length takes one.
    let name = match message.split_at_checked(2) {
        Some(([0x0a, length], name)) if name.len() == usize::from(*length) => name.to_vec(),
        _ => bail!("the request {message:?} is none"),
    };
    let name = String::from_utf8(name)?;
    ensure!(!name.contains('/'), "a path is asked for: {name}");
    Ok(Some(name))
}

/// `img_streamer_reply_entry { required bool exists = 1; }` with its length before it.
fn send_reply(criu: &mut UnixStream, exists: bool) -> io::Result<()> {
    criu.write_all(&[2, 0, 0, 0, 0x08, u8::from(exists)])
}

/// The descriptor that follows a request, with one byte that means nothing.
fn receive_fd(criu: &UnixStream) -> Result<OwnedFd> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    recvmsg(
        criu.as_fd(),
        &mut [IoSliceMut::new(&mut byte)],
        &mut control,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    let fds = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    fds.flatten()
        .next()
        .context("no pipe came with the request")
}
