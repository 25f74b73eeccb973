//! What the matcher has to answer.

use rocferry_topology::Switch;

use crate::brute::{Judged, Question, Verdict};
use crate::rules::{Broken, Rule, switchable, switched};

impl Verdict {
    /// The mappings that break nothing.
    pub(crate) fn valid(&self) -> impl Iterator<Item = &Judged> {
        self.judged.iter().filter(|j| j.broken.is_empty())
    }

    /// Whether some mapping breaks nothing.
    pub(crate) fn accepts(&self) -> bool {
        self.valid().next().is_some()
    }

    /// Whether all mappings break something, and one of them this alone.
    pub(crate) fn decides(&self, rule: Rule) -> bool {
        let alone = Broken::of([rule]);
        !self.accepts() && self.judged.iter().any(|j| j.broken == alone)
    }

    /// The mapping to be preferred.
    pub(crate) fn best(&self, question: &Question) -> Option<&Judged> {
        let mut left: Vec<&Judged> = self.valid().collect();
        // Each GPU in turn keeps its id if that leaves anything.
        for (source, id) in self.sources.iter().enumerate() {
            let Some(own) = self.destinations.iter().position(|d| d == id) else {
                continue;
            };
            if left.iter().any(|j| j.map[source] == own) {
                left.retain(|j| j.map[source] == own);
            }
        }
        // The same order, when there are as many.
        if self.sources.len() == self.destinations.len() {
            let same_order = |j: &&&Judged| j.map.iter().enumerate().all(|(s, d)| s == *d);
            if let Some(same) = left.iter().find(same_order) {
                return Some(same);
            }
        }
        // The same CPUs, even where they need not be.
        if !question.checks.numa && left.iter().any(|j| j.numa.holds) {
            left.retain(|j| j.numa.holds);
        }
        // Mappings are listed in order, so this one is the smallest.
        left.first().copied()
    }

    /// The ids of a mapping's pairs.
    pub(crate) fn pairs(&self, judged: &Judged) -> Vec<(u32, u32)> {
        let destinations = judged.map.iter().map(|at| self.destinations[*at]);
        self.sources.iter().copied().zip(destinations).collect()
    }

    /// How many switches have to be turned off, at least. `None`: it is allowed as it is, or never.
    pub(crate) fn fewest_switches(&self) -> Option<u32> {
        let turned = |j: &Judged| j.broken.without(switchable()).is_empty();
        let fewest = self
            .judged
            .iter()
            .filter(|j| turned(j))
            .map(|j| j.broken.len())
            .min();
        fewest.filter(|count| *count > 0)
    }

    /// Whether turning these switches off allows it.
    pub(crate) fn allowed_by(&self, switches: &[Switch]) -> bool {
        let off = Broken::of(switches.iter().copied().map(switched));
        self.judged.iter().any(|j| j.broken.without(off).is_empty())
    }
}
