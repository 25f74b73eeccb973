//! The script that CRIU runs at its stages: this program, under a name of its own in the container's folder.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use rustix::process::{Pid, getpid, getppid};

use super::cgroup::{Cgroup, CgroupError};
use super::files::{Named, Note as _, Plan, Proof, Stage};
use super::guard;
use super::tree::{chain, kill, named, tree};
use crate::error::causes;
use crate::ticket::TicketError;

/// Name of the link to this program. CRIU gives the script no arguments: the folder of the link is all it is told.
pub(crate) const LINK: &str = "rocferry-hold";

/// How long the kernel may take to freeze or thaw a cgroup. Tasks in the kernel's uninterruptible waits delay it.
const PATIENCE: Duration = Duration::from_secs(20);

/// A stage that failed.
#[derive(Debug, thiserror::Error)]
enum ScriptError {
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    #[error(transparent)]
    File(#[from] TicketError),
    #[error("Cannot list the processes")]
    Processes(#[source] std::io::Error),
    #[error("Cannot guard CRIU")]
    Guard(#[source] std::io::Error),
    #[error("{0}")]
    Wrong(String),
}

/// Acts at a stage.
pub(crate) fn main(own_name: &Path, stage: &str, init: Option<Pid>) -> ExitCode {
    let folder = own_name.parent().unwrap_or(Path::new("/"));
    let done = match stage {
        "pre-restore" => begin(folder),
        "post-restore" => prove(folder, init),
        "pre-resume" => hold(folder, init),
        _ => Ok(()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // CRIU's standard error is the container's; its log has the exit status, and this file the reason.
            let text = format!("{stage}: {}\n", causes(&error));
            let _ = std::fs::write(folder.join("hold-error.txt"), text);
            ExitCode::FAILURE
        }
    }
}

fn plan(folder: &Path) -> Result<Plan, ScriptError> {
    Plan::read(folder)?.ok_or_else(|| ScriptError::Wrong("There is no plan".to_owned()))
}

/// CRIU, which runs this script, and those above it up to the wrapper. Without these CRIU runs no script at `pre-resume`, and
/// lets the tasks go; and an orphan's parent is somebody else.
fn criu(plan: &Plan) -> Result<(Pid, Named, Vec<Named>), ScriptError> {
    let criu = getppid().and_then(|pid| Some((pid, named(pid)?, chain(pid, plan.wrapper)?)));
    criu.ok_or_else(|| ScriptError::Wrong("CRIU, the runtime or the wrapper has gone".to_owned()))
}

/// The script runs. What is left of a killed restore can be found from here on. runc puts CRIU into the container's cgroup,
/// from where the tree may go into others below it; crun leaves CRIU where crun is.
fn begin(folder: &Path) -> Result<(), ScriptError> {
    let plan = plan(folder)?;
    let (pid, criu, _) = criu(&plan)?;
    let own = Cgroup::of(&plan.hierarchy, pid)?;
    let is_containers = !own.contains(&Cgroup::at(&plan.refuge));
    let earlier = Proof::read(folder)?.and_then(|proof| proof.oom_group);
    let oom_group = match is_containers {
        true if earlier.is_none() => own.oom_group()?,
        _ => earlier,
    };
    let proof = Proof {
        stage: Stage::Begun,
        cgroup: is_containers.then(|| own.path().to_owned()),
        criu,
        init: None,
        oom_group,
    };
    proof.write(folder)?;
    // CRIU waits for ever for a task that is killed for want of memory: better that it dies with it.
    if is_containers && oom_group.is_some() {
        own.set_oom_group(true)?;
    }
    Ok(())
}

fn known(init: Option<Pid>) -> Result<Pid, ScriptError> {
    init.ok_or_else(|| ScriptError::Wrong("CRIU does not say which process it restored".to_owned()))
}

/// CRIU moves out, and the container's cgroup is shown to freeze. CRIU fails if this does.
fn prove(folder: &Path, init: Option<Pid>) -> Result<(), ScriptError> {
    let (plan, init) = (plan(folder)?, known(init)?);
    let (pid, criu, others) = criu(&plan)?;
    let refuge = Cgroup::at(&plan.refuge);
    let earlier = Proof::read(folder)?;
    // Both ways to CRIU have led here.
    let again = matches!(&earlier, Some(proof) if proof.stage != Stage::Begun);
    let oom_group = earlier.as_ref().and_then(|proof| proof.oom_group);
    let container = match earlier.and_then(|proof| proof.cgroup) {
        Some(cgroup) => Cgroup::at(cgroup),
        None => Cgroup::of(&plan.hierarchy, init)?,
    };
    if container.contains(&refuge) {
        return Err(ScriptError::Wrong(format!(
            "The container has no cgroup of its own: {} is the runtime's as well",
            container.path().display()
        )));
    }
    if let Some(place) = plan
        .place
        .as_ref()
        .filter(|place| !place.holds(container.path()))
    {
        return Err(ScriptError::Wrong(format!(
            "The runtime restores it in {} and would move it to {place} when it is frozen, which lets it run: a held restore needs another runtime",
            container.path().display()
        )));
    }
    for pid in [pid, getpid()] {
        refuge.take(pid)?;
        let now = Cgroup::of(&plan.hierarchy, pid)?;
        if container.contains(&now) {
            return Err(ScriptError::Wrong(format!(
                "CRIU is still in {}",
                now.path().display()
            )));
        }
    }
    aside(&plan, &container, init)?;
    whole(&plan, &container, init)?;
    if !again {
        let first = named(init).ok_or_else(ended)?;
        let others = [others, vec![first]].concat();
        guard::start(folder, criu, &others, &container).map_err(ScriptError::Guard)?;
        if let Some(before) = oom_group {
            container.set_oom_group(before)?;
        }
    }
    container.freeze(PATIENCE)?;
    container.thaw(PATIENCE)?;
    let proof = Proof {
        stage: Stage::Proven,
        cgroup: Some(container.path().to_owned()),
        criu,
        init: None,
        oom_group,
    };
    Ok(proof.write(folder)?)
}

/// Freezes the container, or kills it: CRIU goes on whatever is answered here.
fn hold(folder: &Path, init: Option<Pid>) -> Result<(), ScriptError> {
    let error = match freeze(folder, init) {
        Ok(()) => return Ok(()),
        Err(error) => error,
    };
    let proof = Proof::read(folder).ok().flatten();
    let criu = proof.as_ref().map(|proof| proof.criu);
    let known = proof.and_then(|proof| proof.cgroup).map(Cgroup::at);
    let below = || {
        let plan = Plan::read(folder).ok()??;
        Cgroup::of(&plan.hierarchy, init?).ok()
    };
    let killed = known.or_else(below).map(|cgroup| cgroup.kill());
    if !matches!(killed, Some(Ok(())))
        && let Some(init) = init
    {
        // Its namespace dies with it.
        let _ = rustix::process::kill_process(init, rustix::process::Signal::KILL);
    }
    // It would wait for tasks that cannot end while it traces them.
    if let Some(criu) = criu {
        kill(criu);
    }
    Err(error)
}

fn freeze(folder: &Path, init: Option<Pid>) -> Result<(), ScriptError> {
    let (plan, init) = (plan(folder)?, known(init)?);
    let proof = Proof::read(folder)?;
    let proof = proof.filter(|proof| proof.stage != Stage::Begun);
    let proof = proof.ok_or_else(|| ScriptError::Wrong("There is no proof".to_owned()))?;
    let cgroup = proof.cgroup.clone();
    let container = cgroup.map(Cgroup::at);
    let container =
        container.ok_or_else(|| ScriptError::Wrong("The proof names no cgroup".to_owned()))?;
    container.freeze(PATIENCE)?;
    whole(&plan, &container, init)?;
    let proof = Proof {
        stage: Stage::Frozen,
        init: Some(named(init).ok_or_else(ended)?),
        ..proof
    };
    Ok(proof.write(folder)?)
}

fn ended() -> ScriptError {
    ScriptError::Wrong("The restored processes have ended".to_owned())
}

/// What the runtime has put into the container's cgroup for itself goes out of it, or the runtime waits for ever for somebody
/// who is frozen: under systemd crun has a process there that stands for the container until that is restored.
fn aside(plan: &Plan, container: &Cgroup, init: Pid) -> Result<(), ScriptError> {
    let tree = tree(init).map_err(ScriptError::Processes)?;
    let own = container.processes()?;
    let others = own.into_iter().filter(|pid| !tree.contains(pid));
    // Nobody else's.
    let others: Vec<Pid> = others
        .filter(|pid| chain(*pid, plan.wrapper).is_some())
        .collect();
    if others.is_empty() {
        return Ok(());
    }
    let beside = container.aside();
    let beside = beside.ok_or_else(|| ScriptError::Wrong("There is no other cgroup".to_owned()))?;
    beside.make()?;
    for pid in others {
        beside.take(pid)?;
    }
    Ok(())
}

/// Checks that the whole tree is in the cgroup that is frozen.
fn whole(plan: &Plan, container: &Cgroup, init: Pid) -> Result<(), ScriptError> {
    match strays(&plan.hierarchy, container, init)? {
        None => Ok(()),
        Some(reason) => Err(ScriptError::Wrong(reason)),
    }
}

/// Why not the whole tree is in this cgroup, if it is not.
fn strays(hierarchy: &Path, container: &Cgroup, init: Pid) -> Result<Option<String>, ScriptError> {
    let tree = tree(init).map_err(ScriptError::Processes)?;
    if tree.is_empty() {
        return Err(ended());
    }
    for pid in tree {
        let own = Cgroup::of(hierarchy, pid)?;
        if !container.contains(&own) {
            return Ok(Some(format!(
                "Process {} is in {}, outside of {}",
                pid.as_raw_nonzero(),
                own.path().display(),
                container.path().display()
            )));
        }
    }
    Ok(None)
}

/// The same when the runtime has ended, which may have moved them: why they are not all where they were frozen.
pub(crate) fn moved(folder: &Path, container: &Cgroup, init: Named) -> Option<String> {
    let still = || -> Result<Option<String>, ScriptError> {
        let pid = Pid::from_raw(init.pid).filter(|pid| named(*pid) == Some(init));
        strays(&plan(folder)?.hierarchy, container, pid.ok_or_else(ended)?)
    };
    still().unwrap_or_else(|error| Some(causes(&error)))
}

/// Whether this program was started as the script.
pub(crate) fn is_script(own_name: &Path) -> bool {
    own_name
        .file_name()
        .is_some_and(|name| name.as_bytes() == LINK.as_bytes())
}
