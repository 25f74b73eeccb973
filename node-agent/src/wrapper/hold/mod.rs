//! Holding a container: restored as a whole, and not one instruction run.
//!
//! CRIU lets a script act at its stages. Several failures there are only logged by CRIU or the runtime and would let the
//! container run, so everything is proven where failure is still fatal, and counts only with the proof that the script leaves:
//!
//! ```text
//! before          the wrapper checks its files                                    else nothing is begun
//! pre-restore     the script runs at all, and its plan can be read                else CRIU fails
//! post-restore    CRIU moves out of the container's cgroup into the wrapper's;
//!                 the container's freezes and thaws, holds the whole tree, and    else CRIU fails
//!                 is where the container is to be
//!                 a guard watches CRIU, runtime and wrapper, and kills all if one ends too early
//! pre-resume      it freezes, and is seen frozen                                  else all of it is killed
//! after           proof read, cgroup seen frozen once more, the tree still in it  else all of it is killed
//! ```
//!
//! CRIU goes to the cgroup that the wrapper was started in: none of our own, which service managers would not
//! know.

mod cgroup;
mod criu_conf;
mod files;
pub(crate) mod guard;
mod script;
mod tree;

pub(crate) use cgroup::{Cgroup, CgroupError, hierarchy};
pub(crate) use criu_conf::{ANNOTATION, CriuConf, SECOND_WAY};
pub(crate) use files::{Named, Note, Place, Plan, Proof, Stage};
pub(crate) use script::{LINK, is_script, main, moved};
pub(crate) use tree::{kill, named};
