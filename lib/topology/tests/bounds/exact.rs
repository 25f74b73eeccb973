//! Exact answers for large machines that are built like a tree: GPUs in hives in CPUs.
//!
//! On such machines nothing ties together what lies in different branches, so that one bipartite matching within
//! another decides. On others this proves nothing.

use crate::large::Chip;

/// Whether every one of `left` things can have one of `right` things of its own.
pub(crate) fn perfect(left: usize, right: usize, fits: impl Fn(usize, usize) -> bool) -> bool {
    let mut holder = vec![None; right];
    (0..left).all(|thing| place(thing, &mut vec![false; right], &mut holder, &fits))
}

fn place(
    thing: usize,
    seen: &mut [bool],
    holder: &mut [Option<usize>],
    fits: &impl Fn(usize, usize) -> bool,
) -> bool {
    for to in 0..holder.len() {
        if seen[to] || !fits(thing, to) {
            continue;
        }
        seen[to] = true;
        if holder[to].is_none_or(|other| place(other, seen, holder, fits)) {
            holder[to] = Some(thing);
            return true;
        }
    }
    false
}

/// The chips of each value of `by`.
fn grouped<K: Ord + Copy>(chips: &[Chip], by: impl Fn(&Chip) -> K) -> Vec<Vec<Chip>> {
    let mut keys: Vec<K> = chips.iter().map(&by).collect();
    keys.sort_unstable();
    keys.dedup();
    let group = |key: K| {
        chips
            .iter()
            .filter(|chip| by(chip) == key)
            .cloned()
            .collect()
    };
    keys.into_iter().map(group).collect()
}

/// Whether the GPUs fit one by one, with at most `better` CPU links met by a better kind.
fn singly(source: &[Chip], destination: &[Chip], better: Better) -> bool {
    let all = |exempt: Option<usize>| {
        perfect(source.len(), destination.len(), |s, d| {
            let any_kind = better == Better::AtWill || exempt == Some(s);
            source[s].may_become(&destination[d])
                && (any_kind || source[s].xgmi == destination[d].xgmi)
        })
    };
    all(None) || better == Better::Once && (0..source.len()).any(|s| all(Some(s)))
}

/// How many links of a CPU may be met by a better kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Better {
    Once,
    Never,
    AtWill,
}

/// All GPUs are outside of hives and CPUs are not asked about.
pub(crate) fn flat(source: &[Chip], destination: &[Chip]) -> bool {
    singly(source, destination, Better::AtWill)
}

/// All GPUs are in hives, fully linked, and CPUs are not asked about.
pub(crate) fn hives(source: &[Chip], destination: &[Chip]) -> bool {
    let (s, d) = (
        grouped(source, |c| c.hive),
        grouped(destination, |c| c.hive),
    );
    perfect(s.len(), d.len(), |a, b| {
        singly(&s[a], &d[b], Better::AtWill)
    })
}

/// All GPUs are outside of hives, with a link to one CPU each.
pub(crate) fn cpus(source: &[Chip], destination: &[Chip]) -> bool {
    let (s, d) = (grouped(source, |c| c.cpu), grouped(destination, |c| c.cpu));
    perfect(s.len(), d.len(), |a, b| singly(&s[a], &d[b], Better::Once))
}

/// All GPUs are in hives, each of which is at one CPU. All links to CPUs are of one kind.
pub(crate) fn hives_in_cpus(source: &[Chip], destination: &[Chip]) -> bool {
    let (s, d) = (grouped(source, |c| c.cpu), grouped(destination, |c| c.cpu));
    perfect(s.len(), d.len(), |a, b| {
        let (s, d) = (grouped(&s[a], |c| c.hive), grouped(&d[b], |c| c.hive));
        perfect(s.len(), d.len(), |a, b| singly(&s[a], &d[b], Better::Never))
    })
}
