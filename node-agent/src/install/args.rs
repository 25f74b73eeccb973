//! The arguments, and the order of things.

use std::path::{Path, PathBuf};

use super::containerd::Containerd;
use super::criu_conf::{self, Added};
use super::error::InstallError;
use super::file::Content;
use super::host::Host;
use super::plan::{ACTION, PLUGIN, Places, UNIT, Wanted, plan};
use super::put::{Put, put};
use super::record::Record;
use super::take::take;
use crate::cli::{Answer, Exit};
use crate::error::Error;
use crate::preflight;
use crate::runtime::{Criu, PLUGIN_FOLDERS};

/// Which host, and where its record is.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Host")]
struct HostArgs {
    /// Where the host's root folder is mounted
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,
    /// Folder of the agent on the host: what was changed is written down there
    #[arg(
        long,
        env = "ROCFERRY_STATE",
        value_name = "DIR",
        default_value = "/var/lib/rocferry"
    )]
    state: PathBuf,
}

impl HostArgs {
    fn open(&self) -> Result<(Host, Record), InstallError> {
        let host = Host::new(&self.root);
        let record = Record::open(&host.real(&self.state))?;
        Ok((host, record))
    }
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit status: 0 all is in place, 2 not: what was changed until then is undone by `uninstall`. \
Doing it again brings a newer version."
)]
pub(crate) struct InstallArgs {
    #[command(flatten)]
    host: HostArgs,
    /// Folder with the programs and the plugin; without it, the one that this program is in
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
    /// Folder for the programs on the host
    #[arg(long, value_name = "DIR", default_value = "/usr/libexec/rocferry")]
    prefix: PathBuf,
    /// CRIU's folder of plugins, if it is not where distributions have it
    #[arg(long, value_name = "DIR")]
    plugins: Option<PathBuf>,
    /// containerd's main configuration file
    #[arg(
        long,
        value_name = "FILE",
        default_value = "/etc/containerd/config.toml"
    )]
    containerd_config: PathBuf,
    /// Leave containerd alone
    #[arg(long)]
    no_containerd: bool,
    /// Do not try whether CRIU works with the plugin, as on a host that has no CRIU yet
    #[arg(long)]
    no_trial: bool,
}

impl InstallArgs {
    pub(crate) fn run(&self) -> Result<Answer, Error> {
        let (host, mut record) = self.host.open()?;
        let own = std::env::current_exe().ok();
        let own = own.as_deref().and_then(Path::parent);
        let from = self.from.as_deref().or(own).unwrap_or(Path::new("."));
        let places = Places {
            from,
            prefix: &self.prefix,
            plugins: self.plugins(&host),
        };
        let wanted = plan(&host, &places)?;
        if !self.no_trial && host.is_here() {
            trial(&wanted, &host.real(&self.host.state))?;
        }
        let mut lines = Vec::new();
        for Wanted { path, content } in &wanted {
            let put = put(&host, &mut record, path, content)?;
            let word = match put {
                Put::New => "new",
                Put::Same => "as it was",
                Put::Replaced => "replaced",
                Put::MovedAside => "in the place of another one, which is kept",
            };
            lines.push(format!("{}: {word}\n", path.display()));
        }
        let mut notes = Vec::new();
        let script = self.prefix.join(ACTION);
        for path in criu_conf::files(&host) {
            match criu_conf::add(&host, &mut record, path, &script)? {
                Added::There => lines.push(format!("{}: has the action script\n", path.display())),
                Added::Other => notes.push(format!(
                    "{} has an action script of this site's, which stays; ours is left out: dumps that engines make by themselves \
are not counted",
                    path.display()
                )),
            }
        }
        if wanted.iter().any(|wanted| wanted.path.ends_with(UNIT)) {
            notes.push(
                "The daemon is not begun: `systemctl enable --now rocferry-agent` does, now and at each boot".to_owned(),
            );
        }
        if let (false, Some(program)) = (self.no_containerd, host.program("containerd")) {
            let containerd = Containerd {
                host: &host,
                program,
                config: &self.containerd_config,
                prefix: &self.prefix,
            };
            containerd.add(&mut record)?;
            lines.push(format!(
                "{}: has the runtime\n",
                self.containerd_config.display()
            ));
            notes.push(
                "containerd knows the runtime once it is restarted, one node at a time: `systemctl restart containerd`"
                    .to_owned(),
            );
        }
        Ok(Answer {
            text: lines.concat(),
            notes,
            exit: Exit::Yes,
        })
    }

    /// CRIU's folder of plugins on this host.
    fn plugins(&self, host: &Host) -> PathBuf {
        let known = PLUGIN_FOLDERS.map(PathBuf::from);
        let there = known.iter().find(|folder| host.real(folder).is_dir());
        let usual = there.unwrap_or(&known[0]);
        self.plugins.clone().unwrap_or_else(|| usual.clone())
    }
}

/// Does this host's CRIU work with the new plugin? It is tried in a folder of its own, before anything is changed.
fn trial(wanted: &[Wanted], state: &Path) -> Result<(), InstallError> {
    let plugin = wanted.iter().find(|wanted| wanted.path.ends_with(PLUGIN));
    let Some(Content::File { bytes, .. }) = plugin.map(|wanted| &wanted.content) else {
        return Ok(());
    };
    let folder = tempfile::Builder::new().prefix("trial-").tempdir_in(state);
    let folder = folder.map_err(InstallError::file("make a folder in", state))?;
    let path = folder.path().join(PLUGIN);
    std::fs::write(&path, bytes).map_err(InstallError::file("write", &path))?;
    let criu = Criu {
        program: "criu".into(),
        plugins: Some(folder.path().to_owned()),
    };
    preflight::trial(&criu, state).map_err(|reason| InstallError::Trial { reason })
}

/// Ends the daemon of this host, and that it is begun at each boot. A line if that cannot be done.
fn stop_daemon(host: &Host, has_unit: bool) -> Option<String> {
    // systemd's own test of whether it runs (sd_booted(3)).
    let runs = host.is_here() && Path::new("/run/systemd/system").is_dir();
    let program = host.program("systemctl").filter(|_| runs && has_unit)?;
    let done = host.run(&program, &["disable", "--now", "--quiet", UNIT]);
    done.err()
        .map(|error| format!("The daemon may still run: {}", crate::error::causes(&error)))
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit status: 0 the host is as it was, 1 something was changed since and is left as it is, 2 it failed."
)]
pub(crate) struct UninstallArgs {
    #[command(flatten)]
    host: HostArgs,
}

impl UninstallArgs {
    pub(crate) fn run(&self) -> Result<Answer, Error> {
        let (host, mut record) = self.host.open()?;
        let changes: Vec<_> = record.changes().iter().rev().cloned().collect();
        let mut notes = Vec::new();
        let mut lines = Vec::new();
        let has_unit = changes.iter().any(|change| change.path().ends_with(UNIT));
        notes.extend(stop_daemon(&host, has_unit));
        for change in &changes {
            match take(&host, &mut record, change)? {
                Some(left) => notes.push(left),
                None => lines.push(format!("{}: as it was\n", change.path().display())),
            }
        }
        record.close()?;
        Ok(Answer {
            text: lines.concat(),
            exit: if notes.is_empty() {
                Exit::Yes
            } else {
                Exit::No
            },
            notes,
        })
    }
}
