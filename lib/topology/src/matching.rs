//! A complete assignment of source GPUs to destination GPUs, given which pairs are possible.

/// Which destination each source may take, both by index.
pub(crate) struct Candidates {
    /// Destinations of each source, ascending.
    pub(crate) of: Vec<Vec<usize>>,
    /// Number of destinations.
    pub(crate) destinations: usize,
}

/// Sources that together have fewer candidates than members, so that no assignment exists.
pub(crate) struct Starved {
    pub(crate) sources: Vec<usize>,
    pub(crate) destinations: Vec<usize>,
}

struct Assignment<'a> {
    candidates: &'a Candidates,
    /// Pairs that are decided and no longer change.
    fixed: Vec<bool>,
    to: Vec<Option<usize>>,
    from: Vec<Option<usize>>,
}

impl Assignment<'_> {
    /// Finds `source` a destination other than those in `visited`, moving undecided sources along
    /// alternating paths. On failure `visited` and `tried` hold what was reached.
    fn place(&mut self, source: usize, visited: &mut [bool], tried: &mut Vec<usize>) -> bool {
        let candidates = self.candidates;
        tried.push(source);
        for &destination in &candidates.of[source] {
            if std::mem::replace(&mut visited[destination], true) {
                continue;
            }
            let free = match self.from[destination] {
                None => true,
                Some(holder) => !self.fixed[holder] && self.place(holder, visited, tried),
            };
            if free {
                self.to[source] = Some(destination);
                self.from[destination] = Some(source);
                return true;
            }
        }
        false
    }

    /// Decides that `source` takes `destination`, if all others can still be placed.
    fn fix(&mut self, source: usize, destination: usize) -> bool {
        if self.to[source] != Some(destination) {
            let saved = (self.to.clone(), self.from.clone());
            let holder = self.from[destination];
            if holder.is_some_and(|holder| self.fixed[holder]) {
                return false;
            }
            if let Some(old) = self.to[source] {
                self.from[old] = None;
            }
            if let Some(holder) = holder {
                self.to[holder] = None;
            }
            self.to[source] = Some(destination);
            self.from[destination] = Some(source);
            self.fixed[source] = true;
            if let Some(holder) = holder {
                let mut visited = vec![false; self.candidates.destinations];
                if !self.place(holder, &mut visited, &mut Vec::new()) {
                    (self.to, self.from) = saved;
                    self.fixed[source] = false;
                    return false;
                }
            }
        }
        self.fixed[source] = true;
        true
    }
}

/// Gives every source a destination of its own, or names the sources that starve.
///
/// Exact and polynomial (augmenting paths: at most (sources × destinations) searches, each linear in
/// the number of possible pairs). Among the assignments it first honours `wishes` (pairs, in order, each kept when all
/// others can still be placed), then gives each source in order its first possible destination.
pub(crate) fn assign(
    candidates: &Candidates,
    wishes: &[(usize, usize)],
) -> Result<Vec<usize>, Starved> {
    let sources = candidates.of.len();
    let mut assignment = Assignment {
        candidates,
        fixed: vec![false; sources],
        to: vec![None; sources],
        from: vec![None; candidates.destinations],
    };
    for source in 0..sources {
        let mut visited = vec![false; candidates.destinations];
        let mut tried = Vec::new();
        if !assignment.place(source, &mut visited, &mut tried) {
            // Everything that an alternating path reaches is taken by what was tried: one destination
            // short.
            tried.sort_unstable();
            let destinations = (0..candidates.destinations)
                .filter(|d| visited[*d])
                .collect();
            return Err(Starved {
                sources: tried,
                destinations,
            });
        }
    }
    for &(source, destination) in wishes {
        if candidates.of[source].contains(&destination) {
            assignment.fix(source, destination);
        }
    }
    for source in 0..sources {
        if !assignment.fixed[source] {
            for &destination in &candidates.of[source] {
                if assignment.fix(source, destination) {
                    break;
                }
            }
        }
    }
    Ok(assignment.to.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Every complete assignment, by trying all.
    fn all(candidates: &Candidates) -> Vec<Vec<usize>> {
        fn go(c: &Candidates, chosen: &mut Vec<usize>, out: &mut Vec<Vec<usize>>) {
            if chosen.len() == c.of.len() {
                out.push(chosen.clone());
                return;
            }
            for &d in &c.of[chosen.len()] {
                if !chosen.contains(&d) {
                    chosen.push(d);
                    go(c, chosen, out);
                    chosen.pop();
                }
            }
        }
        let mut out = Vec::new();
        go(candidates, &mut Vec::new(), &mut out);
        out
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn agrees_with_brute_force(
            destinations in 1usize..6,
            rows in prop::collection::vec(any::<u8>(), 1..6),
            wish in prop::option::of((0usize..6, 0usize..6)),
        ) {
            let of: Vec<Vec<usize>> = rows
                .iter()
                .map(|row| (0..destinations).filter(|d| row & (1 << d) != 0).collect())
                .collect();
            let candidates = Candidates { of, destinations };
            let wishes: Vec<_> =
                wish.into_iter().filter(|w| w.0 < rows.len() && w.1 < destinations).collect();
            let mut expected = all(&candidates);
            // Brute force lists in lexicographic order: the first that grants the wish, else the first.
            if let Some(&(s, d)) = wishes.first()
                && expected.iter().any(|a| a[s] == d)
            {
                expected.retain(|a| a[s] == d);
            }
            match assign(&candidates, &wishes) {
                Ok(found) => prop_assert_eq!(Some(&found), expected.first()),
                Err(starved) => {
                    prop_assert!(expected.is_empty());
                    prop_assert!(starved.sources.len() > starved.destinations.len());
                    for s in &starved.sources {
                        for d in &candidates.of[*s] {
                            prop_assert!(starved.destinations.contains(d));
                        }
                    }
                }
            }
        }
    }
}
