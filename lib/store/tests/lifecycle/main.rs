//! What becomes of checkpoints after they are stored, over real packs.

mod damage;
mod diffs;
mod gc;
mod interleaved;
mod lost;
mod model;
mod samples;
mod steps;
mod verbs;
mod verify;
