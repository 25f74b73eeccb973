//! Dump and restore that have to give everything back.

use anyhow::Result;

use crate::case::{Case, Lab, On};

pub(crate) const CASES: &[Case] = &[Case {
    name: "round_trip/one_gpu_one_bo",
    on: On::All,
    limit_s: 60,
    run: one_gpu_one_bo,
}];

/// The smallest whole path: one GPU, one VRAM BO with a mapping.
fn one_gpu_one_bo(lab: &mut Lab) -> Result<()> {
    lab.sim.load("preset=gfx90a-1")?;
    let before = lab.workload(&["--bo", "vram:1M"])?;
    let images = lab.folder("images")?;
    lab.criu.dump(before.pid, &images, &[])?.ok()?;
    let pid = lab.criu.restore(&images, &[])?;
    let after = before.restored(pid);
    after.prove()?;
    after.advances()?;
    after.finish()
}
