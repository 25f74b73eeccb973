//! A container restored in the place of being created.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use rocferry_topology::{Checks, Switch};

use super::Context;
use super::bundle::Bundle;
use super::compare::differences;
use super::decide::{Decision, Known};
use super::error::WrapperError;
use super::gpus::sees;
use super::hold::{self, ANNOTATION, Cgroup, CriuConf, Note as _, Plan, SECOND_WAY};
use super::place::{Place, Record};
use super::privileges::{self, Profile};
use super::report::Level;
use super::runtime_state::runtime_state;
use super::saved_files::{self, Filling};
use super::translate::{Restore, restore_words};
use super::{criu_log, proofs, sweep};
use crate::error::causes;
use crate::ticket::{ContainerId, Key, State, Ticket, TicketLock};
use crate::topology::{Fit, fit};

/// A restore under way.
struct Attempt<'a> {
    context: &'a Context,
    bundle: &'a Bundle,
    key: &'a Key,
    ticket: Ticket,
    lock: TicketLock,
    id: ContainerId,
    place: Place,
    held: bool,
    has_gpus: bool,
    filling: Vec<Filling>,
}

pub(super) fn run(
    context: &Context,
    bundle: &Bundle,
    key: &Key,
    marked: bool,
) -> Result<ExitCode, WrapperError> {
    let tickets = context.tickets();
    let lock = tickets.lock(key)?;
    // Once more, now that nobody else can change it.
    let known = Known::look(&tickets, std::slice::from_ref(key), marked);
    let (ticket, held) = match known.decide() {
        Decision::Restore { ticket, held, .. } => (*ticket, held),
        Decision::Refuse(error) => return Err(error),
        Decision::Plain(_) => return context.plain(),
    };
    let id = context.id().ok_or_else(|| WrapperError::Flag {
        flag: "the container's id".to_owned(),
        why: "it is too long, or has unusual characters",
    })?;
    if let State::Held { container, cgroup } = &ticket.state
        && *container != id
        && Cgroup::at(cgroup).is_populated().unwrap_or(false)
    {
        return Err(WrapperError::AlreadyHeld {
            container: container.to_string(),
        });
    }
    // What is there already is not ours to clean up after a failure; the runtime says so.
    if runtime_state(context)?.is_some() {
        return context.plain();
    }
    let place = context.place(&id);
    sweep::sweep(context, &id, &place)?;
    let mut attempt = Attempt {
        place,
        context,
        bundle,
        key,
        ticket,
        lock,
        id,
        held,
        has_gpus: false,
        filling: Vec::new(),
    };
    match attempt.run() {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) => {
            attempt.note(&error);
            Err(error)
        }
    }
}

impl Attempt<'_> {
    fn run(&mut self) -> Result<(), WrapperError> {
        self.compare()?;
        let family = self.context.runtime.family;
        let work = self.place.work();
        let words = restore_words(
            family,
            &self.context.arguments,
            &Restore {
                images: &self.ticket.images,
                work: &work,
                criu: self.ticket.criu,
                profile: &Profile::of(self.bundle.spec()),
            },
        )?;
        self.place.make()?;
        self.place.remember(self.bundle.spec().folder())?;
        let conf = CriuConf::new(self.place.folder(), family)?;
        let script = match self.held {
            true => Some(self.prepare_hold()?),
            false => None,
        };
        conf.for_restore(script.as_deref(), self.ticket.criu.tcp)?;
        self.enter(State::Restoring {
            container: self.id.clone(),
        })?;
        let path = conf.path();
        let path = path.to_str().ok_or_else(|| WrapperError::Hold {
            reason: "runFolder is not text".to_owned(),
        })?;
        self.bundle.annotate(ANNOTATION, path)?;
        if let Some(script) = &script {
            conf.check(script)?;
        }
        let done = self
            .fill()
            .and_then(|()| self.restore(&words, &conf))
            .and_then(|()| self.settle(&conf));
        if done.is_err() {
            self.clean_up();
        }
        done
    }

    /// Everything that can be told before CRIU starts.
    fn compare(&mut self) -> Result<(), WrapperError> {
        let checkpoint = || self.ticket.checkpoint.clone();
        let inventory = self.ticket.images.join("inventory.img");
        fs::metadata(&inventory).map_err(WrapperError::file("find", inventory))?;
        let mut differences = differences(&self.ticket, self.bundle);
        match saved_files::plan(self.key, &self.ticket, self.bundle.spec()) {
            Ok(plan) => self.filling = plan,
            Err(wrong) => differences.extend(wrong),
        }
        if !differences.is_empty() {
            return Err(WrapperError::Differs {
                checkpoint: checkpoint(),
                differences,
            });
        }
        let excess = privileges::excess(&self.ticket.images, self.bundle.spec())?;
        if !excess.is_empty() {
            return Err(WrapperError::Privileges {
                checkpoint: checkpoint(),
                excess,
            });
        }
        let off = |switch: &Switch| {
            self.ticket
                .checks_off
                .iter()
                .any(|name| name == switch.env())
        };
        let (checks, _) = Checks::from_env_lookup(std::env::var_os::<&str>);
        let checks = Switch::ALL
            .into_iter()
            .filter(off)
            .fold(checks, |checks, switch| checks.with(switch, false));
        let machine = &self.context.settings.topology;
        let sees = |minor| sees(self.bundle.spec().content(), minor);
        match fit(&self.ticket.images, machine, sees, checks) {
            Ok(Fit::NoGpus) => Ok(()),
            Ok(Fit::Fits) => {
                self.has_gpus = true;
                Ok(())
            }
            Ok(Fit::No(reasons)) => Err(WrapperError::Gpus {
                checkpoint: checkpoint(),
                reasons,
            }),
            Err(error) => Err(WrapperError::Topology(Box::new(error))),
        }
    }

    /// The script and its plan. The script's place.
    fn prepare_hold(&self) -> Result<PathBuf, WrapperError> {
        let hold = |error: hold::CgroupError| WrapperError::Hold {
            reason: causes(&error),
        };
        let hierarchy = hold::hierarchy().map_err(hold)?;
        let own = Cgroup::of(&hierarchy, rustix::process::getpid()).map_err(hold)?;
        let wrapper = hold::named(rustix::process::getpid());
        let plan = Plan {
            refuge: own.path().to_owned(),
            place: hold::Place::of(self.bundle.spec(), &hierarchy),
            hierarchy,
            wrapper: wrapper.ok_or_else(|| WrapperError::Hold {
                reason: "this process is not in /proc".to_owned(),
            })?,
        };
        plan.write(self.place.folder())?;
        let program = std::env::current_exe();
        let program = program.map_err(WrapperError::file("find", "/proc/self/exe"))?;
        let script = self.place.folder().join(hold::LINK);
        symlink(program, &script).map_err(WrapperError::file("link", &script))?;
        Ok(script)
    }

    /// Puts the checkpoint's files where the container finds them.
    fn fill(&self) -> Result<(), WrapperError> {
        saved_files::fill(
            &self.context.tickets(),
            self.key,
            &self.ticket,
            self.bundle.spec(),
            &self.filling,
        )
    }

    fn restore(&self, words: &[OsString], conf: &CriuConf) -> Result<(), WrapperError> {
        let off = self.ticket.checks_off.iter();
        let mut environment: Vec<_> = off
            .map(|name| (name.clone().into(), OsString::from("0")))
            .collect();
        environment.push((SECOND_WAY.into(), conf.second().into()));
        // Without a log its words go where the container's do, and engines (Podman of a runtime that it does not know) show a
        // line of them in the place of the reason.
        let mut all = Vec::new();
        if self.context.arguments.global("log").is_none() {
            all.push("--log".into());
            all.push(self.place.work().join("runtime.log").into_os_string());
        }
        all.extend_from_slice(words);
        let status = self.context.runtime.run(&all, &environment)?;
        if status.success() {
            return Ok(());
        }
        let log = self.place.work().join("restore.log");
        let mut reason = criu_log::errors(&log);
        if self.held
            && let script = proofs::script_error(self.place.folder())
            && self.place.folder().join("hold-error.txt").exists()
        {
            reason = format!("{script}; {reason}");
        }
        let program = self.context.runtime.program.display();
        if status.code().is_none() {
            // What CRIU has said before is not why.
            reason = format!("{program} was ended by {status}");
        } else if reason.is_empty() {
            let said = self.context.report.last_error();
            let said = said.unwrap_or_else(|| "CRIU has written no error".to_owned());
            reason = format!("{program} ended with {status}: {said}");
        }
        if let Some(kept) = self.keep_log(&log) {
            reason = format!("{reason} (all of it is in {})", kept.display());
        }
        Err(WrapperError::Restore {
            checkpoint: self.ticket.checkpoint.clone(),
            reason,
        })
    }

    /// Makes the restore count.
    fn settle(&mut self, conf: &CriuConf) -> Result<(), WrapperError> {
        let cgroup = match self.held {
            true => Some(proofs::hold(self.place.folder())?),
            false => None,
        };
        if self.has_gpus {
            proofs::gpu_state(&self.place.work(), self.held)?;
        }
        conf.harmless()?;
        self.place.write_record(&Record::new(self.key))?;
        let container = self.id.clone();
        self.enter(match cgroup {
            Some(cgroup) => State::Held { container, cgroup },
            None => State::Used { container },
        })
    }

    /// Writes down how far it is. A ticket that was used up before stays so.
    fn enter(&mut self, state: State) -> Result<(), WrapperError> {
        let is_spent = matches!(self.ticket.state, State::Used { .. });
        let begins = matches!(state, State::Restoring { .. });
        let tickets = self.context.tickets();
        self.ticket = tickets.change(&self.lock, self.key, |ticket| {
            if begins {
                ticket.attempts = ticket.attempts.saturating_add(1);
            } else {
                ticket.last_error = None;
            }
            if !is_spent {
                ticket.state = state;
            }
        })?;
        Ok(())
    }

    /// Nothing of it stays, so that the next try finds what this one has found.
    fn clean_up(&self) {
        let trouble =
            |error: WrapperError| self.context.report.say(Level::Warning, &causes(&error));
        // Whatever the runtime thinks of it: nothing of what was to be held may run.
        if let Err(error) = sweep::kill(&self.place) {
            trouble(error);
        }
        // Before the runtime's `delete`: that empties its folder, and with it the root file system that it has bound there.
        if let Err(error) = sweep::unbind(self.context, &self.id, &self.place) {
            trouble(error);
            return;
        }
        let mut words = self.context.globals_without_log();
        words.extend(["delete", "--force"].map(OsString::from));
        words.push(self.id.as_str().into());
        // Its complaint about a container that never came to be is none of ours.
        if let Err(error) = self.context.runtime.output(&words) {
            trouble(error);
        }
        if let Err(error) = self.bundle.put_back() {
            trouble(error);
        }
        if let Err(error) = sweep::sweep(self.context, &self.id, &self.place) {
            trouble(error);
        }
    }

    /// Leaves the reason in the ticket, which is ready for another try.
    fn note(&self, error: &WrapperError) {
        let text = causes(error);
        let begun = State::Restoring {
            container: self.id.clone(),
        };
        let noted = self
            .context
            .tickets()
            .change(&self.lock, self.key, |ticket| {
                ticket.note_error(&text);
                if ticket.state == begun {
                    ticket.state = State::Ready;
                }
            });
        if let Err(error) = noted {
            self.context.report.say(Level::Warning, &causes(&error));
        }
    }

    /// CRIU's log outlives the cleaning up: the last one of each container.
    fn keep_log(&self, log: &Path) -> Option<PathBuf> {
        let folder = self.context.settings.run_folder.join("logs");
        fs::create_dir_all(&folder).ok()?;
        let kept = folder.join(format!("{}.restore.log", self.key.stem()));
        fs::rename(log, &kept).ok()?;
        Some(kept)
    }
}
