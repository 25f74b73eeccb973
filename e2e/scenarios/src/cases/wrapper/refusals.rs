//! Containers that must not be made, and those that are nobody's business.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use anyhow::{Result, ensure};
use serde_json::json;

use super::tool::{COMMAND, Container, Taken, Wrapper, case, change, folder_of};
use crate::case::{Case, Lab};
use crate::containers::{Device, PluginForAll};

pub(super) const CASES: &[Case] = &[case("wrapper/refuses_with_the_reason", refuses)];

fn refuses(lab: &mut Lab) -> Result<()> {
    let (_plugin, wrapper) = (PluginForAll::install()?, Wrapper::new(lab)?);
    lab.sim.load("preset=gfx90a-2")?;
    let given = Device::of_gpus(&lab.sim, &[0])?;
    let taken = Taken::new(lab, &wrapper, &given)?;
    let container = Container("other");
    let words = ["create", "--bundle", folder_of(&taken.bundle)?, container.0];
    let nothing = |what: &str| -> Result<()> {
        taken.has_not_run()?;
        ensure!(!container.is_known()?, "{what}: runc knows it");
        Ok(())
    };

    let lacks = json!({ "mounts": [{ "destination": "/models", "kind": "bind" }] });
    wrapper.ticket("id_other", &taken.images, &lacks)?;
    wrapper.refused(&words, &["the-checkpoint", "no mount at /models"])?;
    nothing("a mount is missing")?;

    wrapper.ticket("id_other", &taken.images, &json!({}))?;
    taken
        .bundle
        .write(COMMAND, &Device::of_gpus(&lab.sim, &[0, 1])?)?;
    wrapper.refused(
        &words,
        &["GPUs of the checkpoint the-checkpoint do not fit"],
    )?;
    nothing("a GPU too many")?;
    taken.bundle.write(COMMAND, &given)?;

    wrapper.write(
        "fences",
        "id_other",
        &json!({ "version": 1, "request": "default/move", "sinceMs": 1 }),
    )?;
    wrapper.refused(&words, &["under migration (default/move)"])?;
    nothing("a fence")?;
    let folder = wrapper.folder();
    fs::remove_file(folder.join("fences/id_other.json"))?;

    fs::remove_file(folder.join("tickets/id_other.json"))?;
    change(&taken.bundle, |config| {
        config["annotations"] = json!({ "rocferry.dev/restore": "request" });
    })?;
    wrapper.refused(&words, &["marked for a restore, and has no ticket"])?;
    nothing("no ticket")?;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o777))?;
    wrapper.refused(
        &words,
        &["marked for a restore, and has no ticket", "is not safe"],
    )?;
    nothing("a folder that others write to")?;

    // Not marked: nobody's business, however broken the folder is.
    taken.bundle.write(COMMAND, &given)?;
    wrapper.create(container.0, &taken.bundle)?;
    ensure!(
        container.status()? == "created",
        "it is {}",
        container.status()?
    );
    Ok(())
}
