//! The rules of the matching of GPUs, each left out or altered in one place.
//!
//! What only makes the search quicker is not here: without it the answers are the same.

mod properties;

use super::table::{Mutant, Test};
pub(super) use properties::PROPERTIES;

/// What cargo calls the targets that have to notice.
pub(super) const TARGETS: &[&str] = &["--test", "cases", "--test", "oracle"];

/// Links, CPUs, hives, choices, preferences and switches.
pub(super) const TIES: &[Mutant] = &[
    rule(
        "m-switch-numa",
        "the switch of numa has no effect",
        "lib/topology/src/matcher.rs",
        "            numa: self.checks.numa,",
        "            numa: true,",
    ),
    rule(
        "m-count",
        "mode All leaves GPUs over",
        "lib/topology/src/matcher.rs",
        "Mode::All if needed != usable",
        "Mode::All if needed > usable",
    ),
    rule(
        "m-xnack",
        "XNACK is not compared",
        "lib/topology/src/matcher.rs",
        "destination.xnack == Some(false)",
        "destination.xnack.is_none() && false",
    ),
    rule(
        "m-xnack-off",
        "a process without XNACK asks for it",
        "lib/topology/src/matcher.rs",
        "self.xnack == Some(true) &&",
        "self.xnack.is_some() &&",
    ),
    rule(
        "m-sdma",
        "the number of the partition is not compared",
        "lib/topology/src/matcher.rs",
        "(needed != here).then_some",
        "(needed > here + 16).then_some",
    ),
    rule(
        "m-sdma-free",
        "numbers of partitions count without SDMA queues",
        "lib/topology/src/matcher.rs",
        "let needed = self.sdma_partitions[source]?;",
        "let needed = self.sdma_partitions[source].or(self.gpus[source].partition_index())?;",
    ),
    rule(
        "m-links",
        "links are not counted",
        "lib/topology/src/matcher.rs",
        "self.links[source] <= most[*to] && self.cpu_links_fit",
        "self.cpu_links_fit",
    ),
    rule(
        "m-links-chosen",
        "links are not counted among the chosen GPUs",
        "lib/topology/src/matching/verdict.rs",
        "wanted <= destination.valid_links(image, chosen)",
        "wanted <= destination.valid_links(image, chosen).max(wanted)",
    ),
    rule(
        "m-links-seen",
        "links to GPUs that are not chosen count",
        "lib/topology/src/matching/side.rs",
        ".filter(|peer| chosen.has(usize::from(**peer)))",
        ".filter(|peer| chosen.has(usize::from(**peer)) || true)",
    ),
    rule(
        "m-links-self",
        "a link of a GPU to itself counts as one to another",
        "lib/topology/src/matcher.rs",
        "let folded = gpus > peers || side.peers[to].has(to);",
        "let folded = gpus > peers;",
    ),
    rule(
        "m-links-other",
        "links of other kinds count",
        "lib/topology/src/matching/side.rs",
        ".filter(|link| link.valid && link.kind.is_kept())",
        ".filter(|link| link.valid)",
    ),
    rule(
        "m-cpu-link",
        "one of several links to CPUs is enough",
        "lib/topology/src/matcher.rs",
        "            .all(|link| offered.iter().any(",
        "            .any(|link| offered.iter().any(",
    ),
    rule(
        "m-cpu-kind",
        "PCIe replaces XGMI to a CPU",
        "lib/topology/src/matching/side.rs",
        "!slower && !way_back_lost",
        "(!slower || slower) && !way_back_lost",
    ),
    rule(
        "m-cpu-way",
        "a one-way link to a CPU replaces a two-way one",
        "lib/topology/src/matching/side.rs",
        "!slower && !way_back_lost",
        "!slower && (!way_back_lost || way_back_lost)",
    ),
    rule(
        "m-two-way",
        "any link to a CPU counts as two-way",
        "lib/topology/src/matching/side.rs",
        "bidirectional: link.bidirectional,",
        "bidirectional: link.bidirectional || link.valid,",
    ),
    rule(
        "m-numa-way",
        "the way back from the mapped CPU does not matter",
        "lib/topology/src/matching/problem.rs",
        ".filter(|other| link.is_replaced_by(**other))",
        ".filter(|other| link.kind <= other.kind)",
    ),
    rule(
        "m-numa-kind",
        "links to the mapped CPU may be of any better kind",
        "lib/topology/src/matching/problem.rs",
        "            upgrades += 1;",
        "            upgrades += 0;",
    ),
    rule(
        "m-numa-two",
        "two links of one CPU may be better",
        "lib/topology/src/matching/verdict.rs",
        "if upgrades <= 1 {",
        "if upgrades <= 2 {",
    ),
    rule(
        "m-numa-none",
        "no link of a CPU may be better",
        "lib/topology/src/matching/problem.rs",
        "Some(1) => demand.better[offered[0].cpu].add(candidate),",
        "Some(1) => {}",
    ),
    rule(
        "m-numa-pair",
        "both of two links of one GPU may be better",
        "lib/topology/src/matching/problem.rs",
        "Some(1) => demand.better",
        "Some(1 | 2) => demand.better",
    ),
    rule(
        "m-numa-distinct",
        "two CPUs become one",
        "lib/topology/src/matching/verdict.rs",
        "map.complete(tied, &choices).map_err(|_| Verdict::Cpus)?;",
        "if map.complete(tied, &choices).is_err() {\n            return Ok(choices.iter().map(|choice| choice.lowest()).collect());\n        }",
    ),
    rule(
        "m-hives",
        "hives are not kept",
        "lib/topology/src/matching/problem.rs",
        "if !self.ties.hives {",
        "if self.ties.hives {",
    ),
    rule(
        "m-hive-pair",
        "two GPUs make no hive",
        "lib/topology/src/matching/side.rs",
        "if group.len() > 1 {",
        "if group.len() > 2 {",
    ),
    rule(
        "m-hive-distinct",
        "two hives go into one",
        "lib/topology/src/matching/verdict.rs",
        "if problem.exclusive.has(hive) && taken.has(hive) {",
        "if problem.exclusive.has(hive) && taken.has(hive) && false {",
    ),
    rule(
        "m-hive-distinct-chosen",
        "two hives go into one chosen group",
        "lib/topology/src/matching/verdict.rs",
        "group.is_some_and(|group| !taken.has(group))",
        "group.is_some_and(|group| !taken.has(group) || taken.has(group))",
    ),
    rule(
        "m-hive-shares",
        "a hive that falls apart takes one hive only",
        "lib/topology/src/matching/problem.rs",
        "exclusive: if subset { cliques } else { all },",
        "exclusive: all,",
    ),
    rule(
        "m-hive-whole-chosen",
        "a hive that falls apart counts as whole",
        "lib/topology/src/matching/problem.rs",
        "cliques: if subset { cliques } else { all },",
        "cliques: all,",
    ),
    rule(
        "m-hive-cpus",
        "hives grow through CPUs",
        "lib/topology/src/matching/side.rs",
        "            side.cpu_links[index].sort_unstable();",
        "            side.cpu_links[index].sort_unstable();
            for other in 0..index {
                let shared = |link: &CpuLink| {
                    link.kind == LinkKind::Xgmi
                        && link.bidirectional
                        && side.cpu_links[other].contains(link)
                };
                if side.cpu_links[index].iter().any(shared) {
                    side.xgmi[index].add(other);
                    side.xgmi[other].add(index);
                }
            }",
    ),
    rule(
        "m-hive-one-way",
        "one-way XGMI makes a hive",
        "lib/topology/src/matching/side.rs",
        "link.kind == LinkKind::Xgmi && link.bidirectional && peer != index",
        "link.kind == LinkKind::Xgmi && peer != index",
    ),
    rule(
        "m-hive-pcie",
        "PCIe makes a hive",
        "lib/topology/src/matching/side.rs",
        "link.kind == LinkKind::Xgmi && link.bidirectional && peer != index",
        "link.bidirectional && peer != index",
    ),
    rule(
        "m-subset",
        "what is chosen is not looked at as a whole",
        "lib/topology/src/matching/verdict.rs",
        "if problem.subset && !self.holds_among_chosen",
        "if problem.subset && problem.rows.is_empty() && !self.holds_among_chosen",
    ),
    rule(
        "m-subset-all",
        "mode Subset sees all GPUs",
        "lib/topology/src/matcher.rs",
        "self.problem_of(target, ties, target.mode == Mode::Subset)",
        "self.problem_of(target, ties, target.mode != target.mode)",
    ),
    rule(
        "m-usable",
        "mode Subset takes the first GPUs that it is given",
        "lib/topology/src/matcher.rs",
        "let mut wanted = usable.to_vec();",
        "let mut wanted = usable.to_vec();\n    wanted.truncate(4);",
    ),
    rule(
        "m-own-ids",
        "own ids are not kept",
        "lib/topology/src/matching/prefer.rs",
        "    for &(gpu, to) in wishes {",
        "    for &(gpu, to) in wishes.iter().take(0) {",
    ),
    rule(
        "m-own-ids-order",
        "own ids are kept from the last GPU on",
        "lib/topology/src/matching/prefer.rs",
        "    for &(gpu, to) in wishes {",
        "    for &(gpu, to) in wishes.iter().rev() {",
    ),
    rule(
        "m-node-order",
        "the last fitting GPU is taken",
        "lib/topology/src/matching/prefer.rs",
        "            for to in self.rows[gpu].iter() {",
        "        let mut order: Vec<usize> = self.rows[gpu].iter().collect();\n        order.reverse();\n        for to in order {",
    ),
    rule(
        "m-alike",
        "GPUs that others are linked to count as alike",
        "lib/topology/src/matching/side.rs",
        "                    side.neighbours[peer].add(index);\n",
        "",
    ),
    rule(
        "m-same-order",
        "NUMA goes before the order",
        "lib/topology/src/matcher.rs",
        "        if in_order {",
        "        if in_order && granted.len() > 64 {",
    ),
    rule(
        "m-near",
        "NUMA counts for nothing when off",
        "lib/topology/src/matcher.rs",
        "Ok(Some(near.unwrap_or(solution)))",
        "Ok(Some(near.map_or(solution.clone(), |_| solution)))",
    ),
    rule(
        "m-near-ids",
        "NUMA goes before own ids when off",
        "lib/topology/src/matcher.rs",
        "            rows[gpu] = Bits::one(to);\n        }\n        let tied",
        "            rows[gpu] = rows[gpu].or(Bits::one(to));\n        }\n        let tied",
    ),
    rule(
        "m-fewest",
        "more switches are named than are needed",
        "lib/topology/src/matcher.rs",
        "sets.sort_by_key(Vec::len);",
        "sets.sort_by_key(|set| std::cmp::Reverse(set.len()));",
    ),
    rule(
        "m-needless",
        "switches are named where none is needed",
        "lib/topology/src/matcher.rs",
        "        if fits(self.checks) {
            return Vec::new();
        }
",
        "",
    ),
    rule(
        "m-useless",
        "switches are named where none helps",
        "lib/topology/src/matcher.rs",
        "        if !fits(without(&on)) {
            return Vec::new();
        }
",
        "        if !fits(without(&on)) {
            return on;
        }
",
    ),
];

const fn rule(
    name: &'static str,
    what: &'static str,
    file: &'static str,
    find: &'static str,
    replace: &'static str,
) -> Mutant {
    Mutant {
        name,
        what,
        file,
        find,
        replace,
        test: Test::Matching,
    }
}
