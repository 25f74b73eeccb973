//! Failing transfers leave no descriptor and no thread behind. A process of its own, since it counts them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(dead_code, reason = "the helpers serve another test too")]

#[path = "pipeline/common.rs"]
mod common;

use rocferry_gpu::pipeline::testing::{Fault, FaultyCopy, FaultyFile, MemoryEngine, Step};
use rocferry_gpu::pipeline::{FdFile, GpuTransfer, load, save};
use rocferry_topology::UserGpuId;
use rustix::io::Errno;

use common::{Gpu, file_of, options};

fn entries(dir: &str) -> usize {
    std::fs::read_dir(dir).unwrap().count()
}

#[test]
fn a_thousand_failures() {
    const STEPS: [Step; 7] = [
        Step::Stage,
        Step::Attach,
        Step::Submit,
        Step::Wait,
        Step::Detach,
        Step::Read,
        Step::Write,
    ];
    // Panics are part of it; their messages would fill the output.
    std::panic::set_hook(Box::new(|_| {}));
    let gpu = Gpu::new(1, &[2, 3], false);
    let image = file_of(&gpu.image());
    let mut before = None;
    let mut failures = 0;
    for round in 0.. {
        let step = STEPS[round % STEPS.len()];
        let fault = if round % 3 == 0 {
            Fault::Panic
        } else {
            Fault::Errno(Errno::NOSPC)
        };
        let after = round / STEPS.len() % 3;
        let options = options(round % 4, 2);
        let file = FaultyFile::new(FdFile::new(&image, "pages"), step, after, fault);
        let mut engine = FaultyCopy::new(MemoryEngine::new(), step, after, fault);
        let job = GpuTransfer {
            gpu: UserGpuId(1),
            engine: &mut engine,
            file: &file,
            bos: gpu.specs(),
            index: None,
        };
        let verb = if round % 2 == 0 { load } else { save };
        failures += usize::from(verb(vec![job], &options).is_err());
        drop((engine, file));
        let now = (entries("/proc/self/fd"), entries("/proc/self/task"));
        // The kernel may list a joined thread for a moment longer.
        if let Some(before) = before
            && now != before
        {
            std::thread::sleep(std::time::Duration::from_millis(50));
            let now = (entries("/proc/self/fd"), entries("/proc/self/task"));
            assert_eq!(now, before, "round {round}: {step:?} {fault:?}");
        }
        before.get_or_insert(now);
        if failures == 1000 {
            break;
        }
        assert!(round < 10_000, "only {failures} failures");
    }
}
