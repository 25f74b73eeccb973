//! Pieces of messages.

use std::fmt::Display;

use super::{Place, Tie};
use crate::{Switch, UserGpuId};

/// Names separated by commas, the tail of a long list counted only.
pub(super) fn list<T: Display>(names: &[T]) -> String {
    const SHOWN: usize = 8;
    let mut shown: Vec<String> = names.iter().take(SHOWN).map(ToString::to_string).collect();
    if names.len() > SHOWN {
        shown.push(format!("{} more", names.len() - SHOWN));
    }
    shown.join(", ")
}

/// `1 GPU`, `2 GPUs`.
pub(super) fn plural(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

/// What comes closest to taking a group.
pub(super) fn best_place(places: &[Place], what: &str) -> String {
    let best = places.iter().max_by_key(|place| place.fits);
    match best {
        None => format!("there is no {what} here"),
        Some(best) => format!("no {what} here takes more than {} of them", best.fits),
    }
}

/// One place, in a line.
pub(super) fn place(place: &Place) -> String {
    let name = match place.cpu {
        Some(cpu) => format!("CPU {cpu} with"),
        None => "Hive of".to_owned(),
    };
    format!("{name} {} takes {} of them", list(&place.gpus), place.fits)
}

pub(super) fn groups(groups: &[Vec<UserGpuId>]) -> String {
    let groups: Vec<String> = groups
        .iter()
        .map(|group| format!("({})", list(group)))
        .collect();
    list(&groups)
}

pub(super) fn ties(ties: &[Tie]) -> String {
    let ties: Vec<&str> = ties.iter().map(|tie| tie.text()).collect();
    ties.join(" and ")
}

pub(super) fn allows(switch: Switch) -> String {
    format!(" ({switch}=0 allows it)")
}

pub(super) fn allows_any(ties: &[Tie]) -> String {
    match ties.contains(&Tie::Numa) {
        true => allows(Switch::Numa),
        false => String::new(),
    }
}
