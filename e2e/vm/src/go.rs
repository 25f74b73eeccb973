//! Programs of modules of the Go module proxy: static, and kept in the cache. No network is needed once they are there.

use crate::cache::Cache;
use crate::fingerprint::Fingerprint;
use crate::leash;
use crate::progress::Progress;
use anyhow::{Context, Result, bail, ensure};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Changes when the way in which programs are built does.
const RECIPE: &str = "go 1";

/// A version of a module, and the programs of it that are wanted.
#[derive(Debug, Clone, Copy)]
pub struct GoModule {
    /// Name of the entry in the cache.
    pub name: &'static str,
    /// Path of the module.
    pub module: &'static str,
    /// Its version, with the `v`.
    pub version: &'static str,
    /// The Go that it needs at least: `1.26.0`.
    pub go: &'static str,
    /// Its programs: name of the file, path of the package.
    pub programs: &'static [(&'static str, &'static str)],
    /// Strings that the linker puts into variables, as some programs get their version: `package.variable`, value.
    pub variables: &'static [(&'static str, &'static str)],
    /// Kubernetes replaces the modules of its folder `staging` by that folder, which is no part of the module: they are
    /// published as modules of this version.
    pub staging: Option<&'static str>,
}

impl GoModule {
    /// The folder with its programs, each under its name. They are built if they are not in the cache.
    ///
    /// # Errors
    /// When there is no Go that is new enough, the module proxy cannot be reached, or a program cannot be built.
    pub fn built(&self, cache: &Cache) -> Result<PathBuf> {
        cache
            .entry(self.name, &self.key(), |dir, progress| {
                self.build(dir, progress)
            })
            .with_context(|| {
                format!(
                    "{} comes from the Go module proxy (GOPROXY) and is built with Go {} or newer",
                    self.name, self.go
                )
            })
    }

    fn key(&self) -> String {
        let mut key = Fingerprint::new(RECIPE)
            .part(self.module)
            .part(self.version)
            .part(self.go)
            .part(self.staging.unwrap_or_default());
        for (name, package) in self.programs {
            key = key.part("program").part(name).part(package);
        }
        for (variable, value) in self.variables {
            key = key.part("variable").part(variable).part(value);
        }
        key.key()
    }

    /// A module of our own names the programs, so that the requirements of their module decide the versions.
    fn build(&self, dir: &Path, progress: &Progress) -> Result<()> {
        let go = go_program(self.go)?;
        let work = dir.join("work");
        fs::create_dir(&work)?;
        fs::write(work.join("go.mod"), self.go_mod(None)?)?;
        if self.staging.is_some() {
            let own = progress.step("reading its go.mod", || self.own_go_mod(&go, &work))?;
            fs::write(work.join("go.mod"), self.go_mod(Some(&own))?)?;
        }
        fs::write(work.join("tools.go"), self.tools())?;
        let run = |doing: &str, args: &[&str]| {
            let mut command = go_command(&go, &work);
            command.args(args);
            progress.step(doing, || progress.run(doing, command))
        };
        let version = format!("{}@{}", self.module, self.version);
        run("fetching its source", &["get", &version])?;
        let variables: Vec<String> = self
            .variables
            .iter()
            .map(|(variable, value)| format!(" -X {variable}={value}"))
            .collect();
        let flags = format!("-s -w{}", variables.concat());
        for (name, package) in self.programs {
            let out = dir.join(name);
            let out = out.to_str().context("The cache's folder is no UTF-8")?;
            let doing = format!("compiling {name}");
            let args = ["build", "-trimpath", "-ldflags", &flags, "-o", out, package];
            run(&doing, &args)?;
        }
        fs::remove_dir_all(&work)?;
        Ok(())
    }

    /// `go.mod` of our module; `own`: that of theirs, if its replacements are wanted.
    fn go_mod(&self, own: Option<&str>) -> Result<String> {
        let Some(own) = own else {
            return Ok(format!("module programs\n\ngo {}\n", self.go));
        };
        let version = self.staging.context("no version for what is in staging")?;
        let first = |word: &str| {
            own.lines()
                .find(|line| line.strip_prefix(word).is_some_and(|r| r.starts_with(' ')))
        };
        let go = first("go").with_context(|| format!("No Go version in {}", self.module))?;
        let mut text = format!("module programs\n\n{go}\n");
        if let Some(line) = first("godebug") {
            writeln!(text, "\n{line}")?;
        }
        writeln!(text, "\nrequire {} {}", self.module, self.version)?;
        writeln!(text, "\nreplace (")?;
        let published = published(own, version);
        ensure!(
            !published.is_empty(),
            "{} {} has nothing in staging",
            self.module,
            self.version
        );
        for line in published {
            writeln!(text, "\t{line}")?;
        }
        text.push_str(")\n");
        Ok(text)
    }

    fn tools(&self) -> String {
        let imports = self
            .programs
            .iter()
            .map(|(_, package)| format!("import _ \"{package}\"\n"));
        format!(
            "//go:build tools\n\npackage tools\n\n{}",
            imports.collect::<String>()
        )
    }

    /// Their `go.mod`.
    fn own_go_mod(&self, go: &Path, work: &Path) -> Result<String> {
        let version = format!("{}@{}", self.module, self.version);
        let mut command = go_command(go, work);
        command.args(["mod", "download", "-json", &version]);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let output = leash::spawn(command)?.wait_with_output()?;
        let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let Some(file) = answer["GoMod"].as_str() else {
            bail!(
                "Cannot fetch {version}: {}{}",
                answer["Error"].as_str().unwrap_or_default(),
                String::from_utf8_lossy(&output.stderr)
            );
        };
        fs::read_to_string(file).with_context(|| format!("Cannot read {file}"))
    }
}

/// What stands in `go.mod` for modules that are replaced by a folder in `staging`: the same, published.
fn published(go_mod: &str, version: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in go_mod.lines() {
        let line = line.trim_start().trim_start_matches("replace ");
        let Some((module, folder)) = line.split_once("=>") else {
            continue;
        };
        if folder.trim_start().starts_with("./staging/") {
            // A replacement may be for one version alone: `module version => …`.
            let module = module.split_ascii_whitespace().next().unwrap_or_default();
            found.push(format!("{module} => {module} {version}"));
        }
    }
    found
}

fn go_command(go: &Path, work: &Path) -> Command {
    let mut command = leash::leashed(go);
    command.current_dir(work);
    command
        .env("CGO_ENABLED", "0")
        .env("GOFLAGS", "-mod=mod")
        .env("GOWORK", "off");
    command
}

/// `go` of the search path, else where its own installer puts it.
fn go_program(version: &str) -> Result<PathBuf> {
    let installed = Path::new("/usr/local/go/bin/go");
    let found = |path: &Path| {
        Command::new(path)
            .arg("version")
            .output()
            .is_ok_and(|out| out.status.success())
    };
    [Path::new("go"), installed]
        .into_iter()
        .find(|path| found(path))
        .map(Path::to_path_buf)
        .with_context(|| {
            format!(
                "No Go {version} or newer: neither in PATH nor {}",
                installed.display()
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODULE: GoModule = GoModule {
        name: "things",
        module: "example.org/things",
        version: "v1.2.3",
        go: "1.26.0",
        programs: &[("thing", "example.org/things/cmd/thing")],
        variables: &[("example.org/things/version.version", "v1.2.3")],
        staging: Some("v0.2.3"),
    };

    const OWN: &str = "module example.org/things\n\ngo 1.26.1\n\ngodebug default=go1.26\n\n\
        require (\n\texample.org/godebug v1.1.0 // indirect\n\texample.org/api v0.0.0\n)\n\n\
        replace (\n\texample.org/api => ./staging/src/example.org/api\n\
        \texample.org/other => example.org/fork v1.0.0\n)\n\n\
        replace example.org/client v0.0.0 => ./staging/src/example.org/client\n";

    #[test]
    fn staging_becomes_what_is_published() {
        let text = MODULE.go_mod(Some(OWN)).unwrap();
        assert_eq!(
            text,
            "module programs\n\ngo 1.26.1\n\ngodebug default=go1.26\n\nrequire example.org/things v1.2.3\n\n\
             replace (\n\texample.org/api => example.org/api v0.2.3\n\
             \texample.org/client => example.org/client v0.2.3\n)\n"
        );
    }

    #[test]
    fn a_module_without_staging_is_not_taken_for_one_with_it() {
        let error = MODULE.go_mod(Some("go 1.26.1\n")).unwrap_err();
        assert!(error.to_string().contains("nothing in staging"), "{error}");
        MODULE.go_mod(Some("module x\n")).unwrap_err();
    }

    #[test]
    fn everything_that_is_built_from_is_in_the_key() {
        let key = MODULE.key();
        for other in [
            GoModule {
                version: "v1.2.4",
                ..MODULE
            },
            GoModule {
                staging: None,
                ..MODULE
            },
            GoModule {
                variables: &[],
                ..MODULE
            },
            GoModule {
                programs: &[("thing", "example.org/things/cmd/other")],
                ..MODULE
            },
            GoModule {
                programs: &[("other", "example.org/things/cmd/thing")],
                ..MODULE
            },
        ] {
            assert_ne!(other.key(), key, "{other:?}");
        }
        assert_eq!(
            GoModule {
                name: "same",
                ..MODULE
            }
            .key(),
            key
        );
    }

    #[test]
    fn the_programs_are_named() {
        assert!(
            MODULE
                .tools()
                .contains("import _ \"example.org/things/cmd/thing\"\n")
        );
    }
}
