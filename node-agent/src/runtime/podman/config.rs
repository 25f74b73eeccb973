//! Podman's own configuration of a container, which an archive for Podman must have. No command prints it whole; it is a row
//! of Podman's database (`db.sql`, since Podman 4.8; the only one since 6.0), whose text is what goes into `config.dump`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, OptionalExtension};
use serde::Deserialize;
use serde_json::Value;

use crate::runtime::RuntimeError;
use crate::runtime::criu::first_line;

/// How long Podman may keep its database to itself.
const PATIENCE: Duration = Duration::from_secs(10);

/// Far more than any configuration.
const MAX_CONFIG: usize = 4 << 20;

/// What is needed of `podman info`.
#[derive(Debug, Deserialize)]
struct Info {
    store: Store,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Store {
    graph_root: PathBuf,
    #[serde(default)]
    run_root: PathBuf,
}

/// Of the container with this id.
pub(super) fn of(program: &Path, id: &str) -> Result<Value, RuntimeError> {
    let output = Command::new(program)
        .args(["info", "--format", "json"])
        .stdin(Stdio::null())
        .output()
        .map_err(|source| RuntimeError::Program {
            program: program.display().to_string(),
            source,
        })?;
    let text = String::from_utf8_lossy(&output.stdout);
    let says = |text| RuntimeError::Says {
        program: format!("{} info", program.display()),
        text,
    };
    if !output.status.success() {
        return Err(says(first_line(&text, &output.stderr)));
    }
    let info: Info = serde_json::from_str(&text).map_err(|error| says(error.to_string()))?;
    // The folder of its state, unless another one for that is set; and the one for storage that is lost at a reboot.
    let Store {
        graph_root,
        run_root,
    } = info.store;
    let places = [graph_root.clone(), graph_root.join("libpod"), run_root];
    let files = places.map(|place| place.join("db.sql"));
    let Some(file) = files.iter().find(|file| file.is_file()) else {
        return Err(says(format!(
            "its containers are not in {}: without that, what it knows of a container cannot be kept",
            files[0].display()
        )));
    };
    read(file, id)
}

fn read(file: &Path, id: &str) -> Result<Value, RuntimeError> {
    let says = |text| RuntimeError::Says {
        program: file.display().to_string(),
        text,
    };
    let failed = |error: rusqlite::Error| says(error.to_string());
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let database = Connection::open_with_flags(file, flags).map_err(failed)?;
    database.busy_timeout(PATIENCE).map_err(failed)?;
    let text: Option<String> = database
        .query_row(
            // Podman writes it as bytes.
            "SELECT CAST(JSON AS TEXT) FROM ContainerConfig WHERE ID = ?1",
            [id],
            |row| row.get(0),
        )
        .optional()
        .map_err(failed)?;
    let text = text.ok_or_else(|| says(format!("no container {id}")))?;
    if text.len() > MAX_CONFIG {
        return Err(says(format!("container {id} has {} bytes", text.len())));
    }
    let config: Value = serde_json::from_str(&text).map_err(|error| says(error.to_string()))?;
    match config.get("staticDir").and_then(Value::as_str) {
        Some(_) => Ok(config),
        None => Err(says(format!("container {id} has no staticDir"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_is_a_row_of_the_database() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("db.sql");
        let database = Connection::open(&file).expect("a database");
        // As Podman makes it.
        database
            .execute_batch(
                r#"CREATE TABLE ContainerConfig(ID TEXT PRIMARY KEY NOT NULL, Name TEXT UNIQUE NOT NULL, PodID TEXT, JSON TEXT NOT NULL);
                INSERT INTO ContainerConfig VALUES ('f00', 'job', NULL, CAST('{"id":"f00","staticDir":"/s"}' AS BLOB));
                INSERT INTO ContainerConfig VALUES ('f01', 'text', NULL, '{"id":"f01","staticDir":"/s"}');
                INSERT INTO ContainerConfig VALUES ('bad', 'bad', NULL, '{"id":"bad"}');"#,
            )
            .expect("made");
        for id in ["f00", "f01"] {
            assert_eq!(read(&file, id).expect("there")["staticDir"], "/s");
        }
        for (id, reason) in [("no", "no container no"), ("bad", "no staticDir")] {
            let error = read(&file, id).expect_err(id).to_string();
            assert!(error.contains(reason), "{error}");
        }
        std::fs::write(&file, "no database").expect("written");
        read(&file, "f00").expect_err("not a database");
        read(Path::new("/nowhere/db.sql"), "f00").expect_err("not there");
    }
}
