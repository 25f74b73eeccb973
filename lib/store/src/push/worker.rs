//! Reading, hashing, compressing and sealing blocks, on a thread of its own.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, PoisonError};

use bytes::BytesMut;
use rustix::fs::SeekFrom;
use tokio::sync::mpsc;

use super::engine::{Engine, Job};
use super::slots::Slot;
use crate::StoreError;
use crate::pack::{BlockEncoder, EncodedBlock, is_zero};
use crate::progress::Count;

/// Works until there are no more jobs, or somebody failed.
pub(super) fn work(
    engine: &Engine,
    jobs: &Mutex<mpsc::Receiver<Job>>,
    encoded: &mpsc::Sender<EncodedBlock>,
) -> Result<(), StoreError> {
    let mut encoder = BlockEncoder::new(engine.options.compression)?;
    // Used again, unless it goes to a pack as it is: new memory has to be cleared, and is in no cache.
    let mut buffer = BytesMut::new();
    loop {
        let job = {
            let mut jobs = jobs.lock().unwrap_or_else(PoisonError::into_inner);
            jobs.blocking_recv()
        };
        let Some(job) = job else { return Ok(()) };
        if engine.is_stopped() {
            return Ok(());
        }
        let Some(block) = one(engine, &job, &mut encoder, &mut buffer)? else {
            continue;
        };
        if encoded.blocking_send(block).is_err() {
            // The packers ended early, and say why.
            return Ok(());
        }
    }
}

/// The block, if it has to be sent.
fn one(
    engine: &Engine,
    job: &Job,
    encoder: &mut BlockEncoder,
    buffer: &mut BytesMut,
) -> Result<Option<EncodedBlock>, StoreError> {
    let progress = &engine.progress;
    let name = |slot| {
        if let Some(place) = job.place {
            engine.slots.set(place, slot);
            progress.add(Count::Done, job.size.into());
        }
    };
    let filled = match read(job, buffer) {
        Ok(filled) => filled,
        // A part that may still change may as well go away.
        Err(_) if job.place.is_none() => return Ok(None),
        Err(error) => return Err(error),
    };
    if !filled || is_zero(buffer) {
        name(Slot::Zero);
        if job.place.is_some() {
            progress.add(Count::Zero, job.size.into());
        }
        return Ok(None);
    }
    let id = engine.keys.block_id(buffer);
    name(Slot::Block(id));
    if !engine.claim(id) {
        if job.place.is_some() {
            progress.add(Count::Known, job.size.into());
        }
        return Ok(None);
    }
    let plain = std::mem::take(buffer).freeze();
    let block = encoder.encode(&engine.keys, id, &plain)?;
    // It is whole again unless the block has it.
    *buffer = plain.try_into_mut().unwrap_or_default();
    Ok(Some(block))
}

/// Fills the buffer with the bytes of a block. False if they are a hole.
fn read(job: &Job, buffer: &mut BytesMut) -> Result<bool, StoreError> {
    let (file, start) = match &job.open {
        Some(open) => open.clone(),
        None => job.source.open()?,
    };
    let position = start.saturating_add(job.position);
    if is_hole(&file, position, job.size) {
        return Ok(false);
    }
    buffer.resize(job.size as usize, 0);
    match file.read_exact_at(buffer, position) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(StoreError::Short {
            path: job.source.path.clone(),
            expected: job.position.saturating_add(job.size.into()),
            actual: file
                .metadata()
                .map_or(0, |meta| meta.len().saturating_sub(start)),
        }),
        Err(error) => Err(StoreError::file("Reading", &job.source.path)(error)),
    }
}

/// Whether the file system knows that there is nothing but zeros. Where it does not say, they are read.
fn is_hole(file: &File, position: u64, size: u32) -> bool {
    let end = position.saturating_add(size.into());
    // The offset of the open file, which this moves, is not used: all reads say where.
    match rustix::fs::seek(file, SeekFrom::Data(position)) {
        Ok(data) => data >= end,
        // No data from here to the end; but the block has to be inside the file.
        Err(rustix::io::Errno::NXIO) => file.metadata().is_ok_and(|meta| meta.len() >= end),
        Err(_) => false,
    }
}
