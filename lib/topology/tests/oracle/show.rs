//! A question in a few lines.

use std::fmt;

use rocferry_topology::{LinkKind, Switch};

use crate::brute::Question;
use crate::generate::model;
use crate::machine::{Gpu, Machine, Wire};
use crate::rules::{AT_LEAST, EQUAL};

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let off: Vec<&str> = Switch::ALL
            .into_iter()
            .filter(|switch| !self.checks.is_on(*switch))
            .map(Switch::env)
            .collect();
        writeln!(f, "mode {:?}, off: {off:?}", self.choice)?;
        writeln!(f, "source, xnack {:?}", self.source.xnack)?;
        write(f, &self.source)?;
        writeln!(
            f,
            "destination, xnack {:?}, usable {:x?}",
            self.destination.xnack, self.usable
        )?;
        write(f, &self.destination)
    }
}

fn write(f: &mut fmt::Formatter<'_>, machine: &Machine) -> fmt::Result {
    for cpu in &machine.cpus {
        writeln!(f, "  node {:3} CPU     {}", cpu.node, wires(&cpu.links))?;
    }
    for gpu in &machine.gpus {
        let (id, links) = (gpu.id, wires(&gpu.links));
        writeln!(
            f,
            "  node {:3} {id:7x} {links}  {}",
            gpu.node,
            properties(gpu)
        )?;
    }
    Ok(())
}

/// `p` PCIe, `x` XGMI, `o` another kind, and the node.
fn wires(wires: &[Wire]) -> String {
    let word = |wire: &Wire| {
        let kind = match wire.0 {
            LinkKind::Pcie => 'p',
            LinkKind::Xgmi => 'x',
            LinkKind::Other(_) => 'o',
        };
        format!("{kind}{}", wire.1)
    };
    wires.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// What differs from the usual.
fn properties(gpu: &Gpu) -> String {
    let usual = model();
    let (mut p, mut u) = (gpu.properties.clone(), usual.properties.clone());
    let mut words = Vec::new();
    for (rule, field) in EQUAL.into_iter().chain(AT_LEAST) {
        let (value, usual) = (*field(&mut p), *field(&mut u));
        if value != usual {
            words.push(format!("{} {value} ({usual})", rule.name()));
        }
    }
    if p.capability != u.capability {
        words.push(format!(
            "capability {:x} ({:x})",
            p.capability, u.capability
        ));
    }
    if p.vram != u.vram {
        let vram = p.vram.map(|vram| (vram.public, vram.size >> 20));
        words.push(format!("vram {vram:?}"));
    }
    if gpu.location.is_some() || gpu.sdma.is_some() {
        words.push(format!("location {:x?} SDMA {:?}", gpu.location, gpu.sdma));
    }
    let known = (gpu.gfx, gpu.xcc, gpu.compute, gpu.memory);
    if known != (usual.gfx, usual.xcc, usual.compute, usual.memory) {
        words.push(format!("{known:?}"));
    }
    words.join(", ")
}
