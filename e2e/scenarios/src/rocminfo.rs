//! What rocminfo prints, read back.
//!
//! The text is a list of agents (CPUs and GPUs), one `Name: value` a line; depth is shown by indentation: two
//! spaces for the agent itself, more for its caches, memory pools and instruction sets, which repeat the names.

use anyhow::{Context, Result, bail, ensure};

/// One agent: a node of the topology as the HSA runtime presents it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Agent {
    fields: Vec<(String, String)>,
    /// Sizes of its caches in KiB, in the order in which they are listed.
    pub(crate) caches: Vec<u64>,
    /// Its memory pools.
    pub(crate) pools: Vec<Pool>,
    /// Names of its instruction sets, `amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-`.
    pub(crate) isas: Vec<String>,
}

/// A memory pool of an agent.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Pool {
    /// `GLOBAL; FLAGS: COARSE GRAINED`, or `GROUP` for the memory that a CU keeps to itself.
    pub(crate) segment: String,
    /// Size in KiB.
    pub(crate) kib: u64,
}

/// The part of an agent that a line belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Agent,
    Caches,
    Pools,
    Isas,
}

impl Agent {
    /// A property of the agent itself.
    pub(crate) fn text(&self, name: &str) -> Result<&str> {
        let found = self.fields.iter().find(|(known, _)| known == name);
        let (_, value) = found.with_context(|| format!("an agent without {name:?}"))?;
        Ok(value)
    }

    /// A property that begins with a number: `29711(0x740f)`.
    pub(crate) fn number(&self, name: &str) -> Result<u64> {
        leading_number(self.text(name)?).with_context(|| format!("{name:?} is no number"))
    }

    /// Is it a GPU?
    pub(crate) fn is_gpu(&self) -> Result<bool> {
        match self.text("Device Type")? {
            "GPU" => Ok(true),
            "CPU" => Ok(false),
            other => bail!("an agent that is a {other}"),
        }
    }
}

/// All agents, in the order in which they are listed.
pub(crate) fn parse(text: &str) -> Result<Vec<Agent>> {
    let mut agents: Vec<Agent> = Vec::new();
    let mut part = Part::Agent;
    let mut ended = false;
    for line in text.lines() {
        let indent = line.len() - line.trim_start_matches(' ').len();
        let line = line.trim();
        if indent == 0 {
            if let Some(number) = line.strip_prefix("Agent ") {
                let wanted = agents.len() + 1;
                ensure!(
                    number.parse() == Ok(wanted),
                    "{line:?} where agent {wanted} should be"
                );
                agents.push(Agent::default());
                part = Part::Agent;
            }
            ended |= line == "*** Done ***";
            continue;
        }
        let (Some(agent), Some((name, value))) = (agents.last_mut(), line.split_once(':')) else {
            continue;
        };
        // Two names end with a colon of their own.
        let value = value.trim_start_matches(':').trim();
        part = match (indent, name) {
            (2, "Cache Info") => Part::Caches,
            (2, "Pool Info") => Part::Pools,
            (2, "ISA Info") => Part::Isas,
            (2, _) => Part::Agent,
            _ => part,
        };
        match (part, indent, name) {
            (Part::Agent, 2, _) => agent.fields.push((name.to_owned(), value.to_owned())),
            (Part::Caches, 4, _) => agent.caches.push(kib(value)?),
            (Part::Pools, 6, "Segment") => agent.pools.push(Pool {
                segment: value.to_owned(),
                kib: 0,
            }),
            (Part::Pools, 6, "Size") => {
                agent
                    .pools
                    .last_mut()
                    .context("a size before its pool")?
                    .kib = kib(value)?;
            }
            (Part::Isas, 6, "Name") => agent.isas.push(value.to_owned()),
            _ => {}
        }
    }
    ensure!(ended, "the list does not come to its end");
    Ok(agents)
}

fn kib(value: &str) -> Result<u64> {
    ensure!(value.ends_with(" KB"), "{value:?} is no size in KB");
    leading_number(value).with_context(|| format!("{value:?} is no size"))
}

fn leading_number(value: &str) -> Option<u64> {
    let end = value
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(value.len());
    value[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "\
\u{1b}[37mROCk module version 6.12.0-kfd-sim is loaded\u{1b}[0m
=====================
HSA System Attributes
=====================
Runtime Version:         1.1
==========
HSA Agents
==========
*******
Agent 1
*******
  Name:                    Some CPU: 2.5+
  Uuid:                    CPU-XX
  Device Type:             CPU
  Cache Info:
    L1:                      65536(0x10000) KB
  Compute Unit:            2
  Pool Info:
    Pool 1
      Segment:                 GLOBAL; FLAGS: FINE GRAINED
      Size:                    4015940(0x3d4744) KB
      Alloc Granule:           4KB
  ISA Info:
*******
Agent 2
*******
  Name:                    gfx90a
  Uuid:                    GPU-65ce5749a3edbf63
  Node:                    1
  Device Type:             GPU
  Cache Info:
    L1:                      16(0x10) KB
    L2:                      8192(0x2000) KB
  Chip ID:                 29711(0x740f)
  Workgroup Max Size per Dimension:
    x                        1024(0x400)
  Packet Processor uCode:: 92
  Pool Info:
    Pool 1
      Segment:                 GLOBAL; FLAGS: COARSE GRAINED
      Size:                    67092480(0x3ffc000) KB
    Pool 2
      Segment:                 GROUP
      Size:                    64(0x40) KB
  ISA Info:
    ISA 1
      Name:                    amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-
      Workgroup Max Size:      1024(0x400)
*** Done ***
";

    #[test]
    fn reads_agents_with_their_parts() {
        let agents = parse(TWO).unwrap();
        let [cpu, gpu] = agents.as_slice() else {
            panic!("{agents:?}")
        };
        assert!(!cpu.is_gpu().unwrap());
        assert_eq!(cpu.text("Name").unwrap(), "Some CPU: 2.5+");
        assert_eq!(
            (cpu.caches.as_slice(), cpu.pools[0].kib),
            ([65_536].as_slice(), 4_015_940)
        );
        assert!(cpu.isas.is_empty());
        assert!(gpu.is_gpu().unwrap());
        assert_eq!(gpu.text("Name").unwrap(), "gfx90a");
        assert_eq!(gpu.number("Chip ID").unwrap(), 0x740f);
        assert_eq!(gpu.number("Packet Processor uCode").unwrap(), 92);
        assert_eq!(gpu.caches, [16, 8192]);
        let group = Pool {
            segment: "GROUP".to_owned(),
            kib: 64,
        };
        assert_eq!((gpu.pools.len(), &gpu.pools[1]), (2, &group));
        assert_eq!(gpu.isas, ["amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-"]);
    }

    #[test]
    fn wants_the_whole_list() {
        parse(TWO.trim_end_matches("*** Done ***\n")).unwrap_err();
        parse(&TWO.replace("Agent 2\n", "Agent 3\n")).unwrap_err();
        parse(&TWO.replace("64(0x40) KB", "much")).unwrap_err();
    }

    #[test]
    fn says_which_property_is_missing() {
        let agents = parse(TWO).unwrap();
        let error = agents[0].number("Chip ID").unwrap_err();
        assert!(error.to_string().contains("Chip ID"), "{error}");
        agents[0].number("Name").unwrap_err();
    }
}
