//! What all threads of one call share, and how jobs and threads are started and joined.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::thread::{Builder, Scope, ScopedJoinHandle};

use rocferry_topology::UserGpuId;

use super::signals::SignalsBlocked;
use super::{GpuTransfer, Options, PipelineError, Report};

/// Somebody failed, and the reason is recorded: stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stopped;

/// The first error of a call, which stops everybody.
#[derive(Debug, Default)]
pub(super) struct Run {
    first: OnceLock<PipelineError>,
}

impl Run {
    /// Records an error, unless there is one already.
    pub(super) fn fail(&self, error: PipelineError) -> Stopped {
        // A later error is a consequence of the first, or at least no better.
        let _ = self.first.set(error);
        Stopped
    }

    /// Has anybody failed?
    pub(super) fn check(&self) -> Result<(), Stopped> {
        if self.first.get().is_some() {
            Err(Stopped)
        } else {
            Ok(())
        }
    }

    /// Runs a thread's work; a panic becomes an error like any other.
    pub(super) fn guard<T>(
        &self,
        gpu: UserGpuId,
        work: impl FnOnce() -> Result<T, Stopped>,
    ) -> Result<T, Stopped> {
        // Whatever a panic leaves half done is given up with the transfer.
        match catch_unwind(AssertUnwindSafe(work)) {
            Ok(result) => result,
            Err(payload) => Err(self.fail(PipelineError::Panicked {
                gpu,
                message: panic_message(&*payload),
            })),
        }
    }
}

fn panic_message(payload: &(dyn Any + Send)) -> String {
    payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "(no text)".to_owned())
}

/// Starts a named thread with all signals blocked. `None` when no thread is to be had, for instance at the
/// limit of a pids cgroup: the work can be done with fewer.
pub(super) fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: String,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Option<ScopedJoinHandle<'scope, T>> {
    let _blocked = SignalsBlocked::new();
    Builder::new().name(name).spawn_scoped(scope, work).ok()
}

/// Runs one job for each GPU, side by side if threads are allowed, and joins all of them.
pub(super) fn all_gpus(
    mut jobs: Vec<GpuTransfer<'_>>,
    options: &Options,
    job: impl Fn(&mut GpuTransfer<'_>, &Run, u64) -> Result<Report, Stopped> + Sync,
) -> Result<Vec<Report>, PipelineError> {
    let ring_bytes = options.budget.ring_bytes(jobs.len());
    let run = Run::default();
    let mut reports: Vec<Option<Report>> = jobs.iter().map(|_| None).collect();
    let one = |transfer: &mut GpuTransfer<'_>| {
        let gpu = transfer.gpu;
        run.guard(gpu, || job(transfer, &run, ring_bytes)).ok()
    };
    if options.readers > 0 && jobs.len() > 1 {
        std::thread::scope(|scope| {
            let (first, others) = jobs.split_at_mut(1);
            let handles: Vec<_> = others
                .iter_mut()
                .enumerate()
                .map(|(index, transfer)| {
                    let one = &one;
                    spawn(scope, format!("rf-gpu-{}", index + 1), move || {
                        one(transfer)
                    })
                })
                .collect();
            reports[0] = one(&mut first[0]);
            for (report, handle) in reports[1..].iter_mut().zip(handles) {
                // The guard has caught every panic.
                *report = handle.and_then(|handle| handle.join().ok().flatten());
            }
        });
    }
    // Without threads, or for those GPUs that got none.
    for (transfer, report) in jobs.iter_mut().zip(&mut reports) {
        if report.is_none() && run.check().is_ok() {
            *report = one(transfer);
        }
    }
    match run.first.into_inner() {
        Some(error) => Err(error),
        None => Ok(reports.into_iter().flatten().collect()),
    }
}
