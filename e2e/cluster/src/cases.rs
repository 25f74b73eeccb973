//! What is tried on a control plane: `cargo xtask cluster test`. Each case ends well or says what is wrong.

mod definitions;
mod outages;
mod stage;

use crate::{ControlPlane, Programs};
use anyhow::{Result, bail};
use std::time::Instant;

use stage::Stage;

type Run = fn(&Stage) -> Result<()>;

/// A case.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    run: Run,
}

const CASES: &[Case] = &[
    Case {
        name: "outages",
        run: outages::outages,
    },
    Case {
        name: "definitions/apply",
        run: definitions::apply,
    },
    Case {
        name: "definitions/refusals",
        run: definitions::refusals,
    },
];

/// Names of all cases.
pub fn names() -> impl Iterator<Item = &'static str> {
    CASES.iter().map(|case| case.name)
}

/// Runs the cases whose names begin with one of `wanted`, all if there is none, one after the other on one control
/// plane. Says how each ended.
///
/// # Errors
/// When there is no such case, no control plane, or a case has failed.
pub fn run(programs: &Programs, wanted: &[String]) -> Result<()> {
    let is_wanted = |case: &&Case| {
        wanted.is_empty()
            || wanted
                .iter()
                .any(|wanted| case.name.starts_with(wanted.as_str()))
    };
    let cases: Vec<&Case> = CASES.iter().filter(is_wanted).collect();
    if cases.is_empty() {
        bail!(
            "No case is named so; there are: {}",
            names().collect::<Vec<_>>().join(", ")
        );
    }
    let begun = Instant::now();
    let cluster = ControlPlane::start(programs)?;
    let ready = begun.elapsed().as_secs_f64();
    println!("control plane ready after {ready:.1} s");
    definitions::install(&cluster)?;
    let mut failed = Vec::new();
    for case in cases {
        let begun = Instant::now();
        let stage = Stage::new(&cluster, case.name)?;
        let done = (case.run)(&stage);
        let took = begun.elapsed().as_secs_f64();
        match done {
            Ok(()) => println!("ok      {} ({took:.1} s)", case.name),
            Err(error) => {
                println!("FAILED  {} ({took:.1} s): {error:#}", case.name);
                failed.push(case.name);
            }
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    bail!("Failed: {}", failed.join(", "))
}
