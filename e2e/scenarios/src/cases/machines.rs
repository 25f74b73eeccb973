//! Cases over two machines that know nothing of each other but a store: each leg runs in one of them, and whoever starts the
//! machines carries what the next leg has to know.

mod pod;
mod podman;

use std::fs;

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value};

use super::agent::tool::Agent;
use crate::case::Lab;
use crate::containers::Traces;

/// What the legs know. The host brings its folder to the machine whose turn it is.
const KEPT: &str = "/host/kept/known.json";

/// The machine that things begin on, and end on.
const HERE: &str = "preset=gfx90a-4";

/// One leg of a case.
pub(crate) fn leg(name: &str, leg: &str) -> Result<fn(&mut Lab) -> Result<()>> {
    let legs: [fn(&mut Lab) -> Result<()>; 3] = match name {
        "machines/podman" => [podman::first, podman::second, podman::third],
        "machines/pod" => [pod::first, pod::second, pod::third],
        _ => bail!("no case {name} over two machines"),
    };
    let at = ["first", "second", "third"]
        .iter()
        .position(|one| *one == leg)
        .with_context(|| format!("no leg {leg}"))?;
    Ok(legs[at])
}

/// Name, value.
type Known = Map<String, Value>;

/// What the legs before have kept; in the first one how the store is reached.
fn known() -> Result<Known> {
    let text = fs::read(KEPT).with_context(|| format!("cannot read {KEPT}"))?;
    Ok(serde_json::from_slice(&text)?)
}

/// For the next leg.
fn keep(known: Known) -> Result<()> {
    Ok(fs::write(KEPT, Value::Object(known).to_string())?)
}

fn word(known: &Known, name: &str) -> Result<String> {
    let value = known.get(name).and_then(Value::as_str);
    Ok(value.with_context(|| format!("no {name}"))?.to_owned())
}

fn traces(known: &Known) -> Result<Traces> {
    Traces::from_json(known.get("traces").context("no traces")?)
}

/// The agent of this machine, with the store of both.
fn agent(lab: &mut Lab, known: &Known) -> Result<Agent> {
    let url = word(known, "store")?;
    let pairs = known.get("environment").and_then(Value::as_object);
    let pairs = pairs.context("no environment")?.iter();
    let environment: Vec<_> = pairs
        .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
        .collect();
    Ok(Agent::new(lab)?.with_store(&url, &environment))
}
