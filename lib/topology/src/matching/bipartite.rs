//! Giving each of several takers one thing of its own.

use super::bits::Bits;

/// A partial or complete assignment, kept up to date while choices shrink.
#[derive(Clone, Debug)]
pub(crate) struct Assignment {
    /// What each taker has.
    pub(crate) to: Vec<Option<u8>>,
}

/// Takers that together want fewer things than they are, so that no assignment exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Starved {
    pub(crate) takers: Bits,
    pub(crate) things: Bits,
}

impl Assignment {
    pub(crate) fn new(takers: usize) -> Self {
        Self {
            to: vec![None; takers],
        }
    }

    /// What this taker has.
    pub(crate) fn get(&self, taker: usize) -> Option<usize> {
        self.to[taker].map(usize::from)
    }

    /// Gives every member of `takers` one of its `choices` (a set for each taker), changing what it has only where needed; others
    /// lose what they had.
    ///
    /// Augmenting paths (Kuhn): at most one search over all choices for each taker that has to move.
    pub(crate) fn complete(&mut self, takers: Bits, choices: &[Bits]) -> Result<(), Starved> {
        let mut holder = [None; Bits::CAPACITY];
        let mut taken = Bits::EMPTY;
        for (taker, row) in choices.iter().enumerate() {
            if let Some(thing) = self.get(taker) {
                if takers.has(taker) && row.has(thing) && !taken.has(thing) {
                    taken.add(thing);
                    holder[thing] = Some(taker);
                } else {
                    self.to[taker] = None;
                }
            }
        }
        let mut search = Search {
            choices,
            to: &mut self.to,
            holder,
            taken,
            visited: Bits::EMPTY,
            tried: Bits::EMPTY,
        };
        for taker in takers.iter() {
            if search.to[taker].is_some() {
                continue;
            }
            search.visited = Bits::EMPTY;
            search.tried = Bits::EMPTY;
            if !search.place(taker) {
                return Err(Starved {
                    takers: search.tried,
                    things: search.visited,
                });
            }
        }
        Ok(())
    }
}

struct Search<'a> {
    choices: &'a [Bits],
    to: &'a mut [Option<u8>],
    holder: [Option<usize>; Bits::CAPACITY],
    taken: Bits,
    /// Things reached so far from the taker being placed.
    visited: Bits,
    /// Takers reached so far.
    tried: Bits,
}

impl Search<'_> {
    fn place(&mut self, taker: usize) -> bool {
        self.tried.add(taker);
        let choices = self.choices[taker];
        if let Some(free) = choices.without(self.taken).lowest() {
            self.give(taker, free);
            return true;
        }
        while let Some(thing) = choices.without(self.visited).lowest() {
            self.visited.add(thing);
            let Some(holder) = self.holder[thing] else {
                continue;
            };
            if self.place(holder) {
                self.give(taker, thing);
                return true;
            }
        }
        false
    }

    fn give(&mut self, taker: usize, thing: usize) {
        // Things are below 128.
        self.to[taker] = u8::try_from(thing).ok();
        self.holder[thing] = Some(taker);
        self.taken.add(thing);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn exists(takers: &[usize], choices: &[Bits], taken: Bits) -> bool {
        takers.split_first().is_none_or(|(first, rest)| {
            choices[*first]
                .without(taken)
                .iter()
                .any(|thing| exists(rest, choices, taken.or(Bits::one(thing))))
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(3000))]
        #[test]
        fn agrees_with_trying_all(
            rows in prop::collection::vec(any::<u8>(), 1..7),
            shrunk in prop::collection::vec(any::<u8>(), 7),
            active in any::<u8>(),
        ) {
            let mut assignment = Assignment::new(rows.len());
            let takers: Bits = (0..rows.len()).filter(|t| active >> t & 1 != 0).collect();
            // The second round starts from the first's answer, with fewer choices.
            for round in 0..2 {
                let choices: Vec<Bits> = rows
                    .iter()
                    .zip(&shrunk)
                    .map(|(row, less)| if round == 0 { *row } else { row & less })
                    .map(|row| (0..8).filter(|d| row >> d & 1 != 0).collect())
                    .collect();
                let list: Vec<usize> = takers.iter().collect();
                match assignment.complete(takers, &choices) {
                    Ok(()) => {
                        let mut seen = Bits::EMPTY;
                        for (taker, row) in choices.iter().enumerate() {
                            let thing = assignment.get(taker);
                            prop_assert_eq!(thing.is_some(), takers.has(taker));
                            if let Some(thing) = thing {
                                prop_assert!(row.has(thing) && !seen.has(thing));
                                seen.add(thing);
                            }
                        }
                    }
                    Err(starved) => {
                        prop_assert!(!exists(&list, &choices, Bits::EMPTY));
                        prop_assert!(starved.takers.len() > starved.things.len());
                        for taker in starved.takers.iter() {
                            prop_assert!(choices[taker].within(starved.things));
                        }
                    }
                }
            }
        }
    }
}
