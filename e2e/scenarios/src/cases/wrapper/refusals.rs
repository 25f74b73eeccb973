//! Containers that must not be made, and those that are nobody's business.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::tool::{COMMAND, Container, Taken, Wrapper, case, change, folder_of};
use crate::case::{Case, Lab};
use crate::containers::{Device, PluginForAll};

pub(super) const CASES: &[Case] = &[
    case("wrapper/refuses_with_the_reason", refuses),
    case("wrapper/refuses_more_than_is_granted", refuses_more),
];

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

/// Images whose container had more rights than the new one: each is named, nothing runs, and with these rights it is restored.
fn refuses_more(lab: &mut Lab) -> Result<()> {
    let (_plugin, wrapper) = (PluginForAll::install()?, Wrapper::new(lab)?);
    lab.sim.load("preset=gfx90a-2")?;
    let given = Device::of_gpus(&lab.sim, &[0])?;
    let taken = Taken::changed(lab, &wrapper, &given, |config| {
        for set in ["bounding", "effective", "permitted"] {
            let set = &mut config["process"]["capabilities"][set];
            set.as_array_mut()
                .expect("a list")
                .push(json!("CAP_SYS_ADMIN"));
        }
        config["process"]["user"] = json!({ "uid": 0, "gid": 0, "additionalGids": [44] });
        config["process"]["noNewPrivileges"] = json!(false);
        config["mounts"].as_array_mut().expect("a list").push(
            json!({ "destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid"] }),
        );
    })?;
    let container = Container("other");
    let words = ["create", "--bundle", folder_of(&taken.bundle)?, container.0];
    let rights = fs::read_to_string(taken.bundle.path().join("config.json"))?;
    wrapper.ticket("id_other", &taken.images, &json!({}))?;
    let refused = |change: &dyn Fn(&mut Value), named: &[&str]| -> Result<()> {
        let mut config: Value = serde_json::from_str(&rights)?;
        change(&mut config);
        fs::write(taken.bundle.path().join("config.json"), config.to_string())?;
        wrapper.refused(
            &words,
            &[&["asks for more than this container is granted"], named].concat(),
        )?;
        taken.has_not_run()?;
        ensure!(!container.is_known()?, "{named:?}: runc knows it");
        ensure!(
            wrapper.state("id_other")? == "ready",
            "{named:?}: the ticket is not ready"
        );
        Ok(())
    };
    let without = |config: &mut Value, gone: &str| {
        for set in ["bounding", "effective", "permitted"] {
            let set = &mut config["process"]["capabilities"][set];
            set.as_array_mut()
                .expect("a list")
                .retain(|name| name != gone);
        }
    };
    refused(
        &|config| without(config, "CAP_SYS_ADMIN"),
        &[
            "CAP_SYS_ADMIN (in its bounding set)",
            "CAP_SYS_ADMIN (effective)",
        ],
    )?;
    refused(
        &|config| config["process"]["noNewPrivileges"] = json!(true),
        &["processes without no_new_privs"],
    )?;
    refused(
        &|config| {
            without(config, "CAP_SYS_ADMIN");
            config["mounts"]
                .as_array_mut()
                .expect("a list")
                .retain(|mount| mount["destination"] != "/tmp");
        },
        &["a mount at \"/tmp\" of \"tmpfs\""],
    )?;
    refused(
        &|config| {
            without(config, "CAP_SETGID");
            config["process"]["user"] = json!({ "uid": 0, "gid": 0 });
        },
        &["group 44"],
    )?;
    refused(
        &|config| {
            without(config, "CAP_SETUID");
            config["process"]["user"]["uid"] = json!(1000);
        },
        &["user 0, not 1000"],
    )?;
    refused(
        &|config| config["linux"]["seccomp"] = json!({ "defaultAction": "SCMP_ACT_ALLOW" }),
        &["processes without a seccomp filter"],
    )?;
    fs::write(taken.bundle.path().join("config.json"), &rights)?;
    wrapper.create(container.0, &taken.bundle)?;
    taken.has_not_run()?;
    wrapper.thaw("id_other")?;
    taken.goes_on(&container).map(drop)
}
