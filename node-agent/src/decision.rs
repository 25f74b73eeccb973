//! The decision about a migration: who may let a frozen or held pod go on.
//!
//! A migrated pod exists twice for a while, frozen on its source and held on its target. One decision, taken once, says which
//! of them goes on. [`may_thaw`] is the whole rule. Whoever drives the migration brings the decision here
//! (`rocferry-agent decide`); an agent that hears nothing keeps still.

mod file;
mod rule;
mod verb;

pub use file::{Decided, DecisionError, Decisions};
pub use rule::{Decision, Side, Source, Verdict, may_thaw};
pub(crate) use verb::DecideArgs;
