//! What the engines want to find in the JSON files, and where it comes from.

use std::collections::BTreeMap;

use rocferry_image::manifest::Source;
use serde_json::{Map, Value, json};

use super::json::{self, Texts, is_cdi};
use super::origin::{CHECKPOINTED_BY, CRIO_ANNOTATIONS, IMAGE_ID, digest, image_id, is_sha256};
use super::{CONFIG_DUMP, Engine, Refusal, SPEC_DUMP, STATUS_DUMP, WriteError};

/// Annotation in which CRI-O keeps the labels that the kubelet gave it.
const CRIO_LABELS: &str = "io.kubernetes.cri-o.Labels";
/// Annotations that name the container as its pod does.
const CRI_NAMES: [&str; 2] = [
    "io.kubernetes.cri.container-name",
    "io.kubernetes.container.name",
];

/// What is known of a checkpoint besides its files. All of it may be absent; what its files say counts first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Name of the container's image, as it was asked for.
    pub image: Option<String>,
    /// Digest of that image: `sha256:` and 64 digits.
    pub image_digest: Option<String>,
    /// Id of that image where it ran: the digest of its configuration, 64 digits.
    pub image_id: Option<String>,
}

impl Facts {
    /// What a manifest says.
    #[must_use]
    pub fn from_source(source: &Source) -> Self {
        let id = source.annotations.iter().find(|(name, _)| name == IMAGE_ID);
        Self {
            image: source.image.clone(),
            image_digest: source.image_digest.clone(),
            image_id: id.map(|(_, id)| id.clone()),
        }
    }
}

type Object = Map<String, Value>;

/// The JSON files that say what the container is.
#[derive(Debug)]
pub(super) struct Documents {
    config: Object,
    spec: Object,
    status: Option<Object>,
}

impl Documents {
    pub(super) fn parse(
        config: &[u8],
        spec: &[u8],
        status: Option<&[u8]>,
    ) -> Result<Self, WriteError> {
        Ok(Self {
            config: object(CONFIG_DUMP, config)?,
            spec: object(SPEC_DUMP, spec)?,
            status: status
                .map(|status| object(STATUS_DUMP, status))
                .transpose()?,
        })
    }

    pub(super) fn config(&self) -> Vec<u8> {
        bytes(&self.config)
    }

    pub(super) fn spec(&self) -> Vec<u8> {
        bytes(&self.spec)
    }

    pub(super) fn status(&self) -> Vec<u8> {
        self.status.as_ref().map(bytes).unwrap_or_default()
    }

    /// Makes them what the engine wants.
    pub(super) fn convert(&mut self, engine: Engine, facts: &Facts) -> Result<(), WriteError> {
        self.config.remove(CHECKPOINTED_BY);
        self.without_devices()?;
        self.need(engine, "id", "the container's id", None)?;
        let image = facts.image.as_deref();
        self.need(engine, "rootfsImageName", "the name of the image", image)?;
        match engine {
            Engine::Podman => self.podman(facts),
            Engine::CriO => self.crio(facts),
            Engine::Containerd => self.containerd(facts),
        }?;
        // What engines give to a new container is what they find here.
        for (member, data) in [
            (CONFIG_DUMP, self.config()),
            (SPEC_DUMP, self.spec()),
            (STATUS_DUMP, self.status()),
        ] {
            if !data.is_empty() {
                json::check(&data).map_err(|refusal| refused(member, refusal))?;
            }
        }
        Ok(())
    }

    /// Name of the container, as its pod has it or else its engine.
    pub(super) fn name(&self) -> Option<&str> {
        let annotations = self.spec.get("annotations").and_then(Value::as_object);
        let annotation = |name: &str| annotations.and_then(|all| string(all, name));
        CRI_NAMES
            .iter()
            .find_map(|name| annotation(name))
            .or_else(|| string(&self.config, "name"))
            .or_else(|| string(&self.config, "id"))
    }

    /// A text of the configuration.
    pub(super) fn config_text(&self, key: &str) -> Option<&str> {
        string(&self.config, key)
    }

    /// An annotation of the specification.
    pub(super) fn annotation(&self, name: &str) -> Option<&str> {
        string(self.spec.get("annotations")?.as_object()?, name)
    }

    /// Podman makes the container from its own configuration, which nobody else writes.
    fn podman(&mut self, facts: &Facts) -> Result<(), WriteError> {
        let engine = Engine::Podman;
        self.need(engine, "name", "the container's name", None)?;
        if self
            .config
            .get("staticDir")
            .is_none_or(|dir| !dir.is_string())
        {
            let what = "the configuration that Podman itself wrote (config.dump of another engine)";
            return Err(WriteError::Unknown { engine, what });
        }
        let id = facts.image_id.as_deref();
        self.need(engine, "rootfsImageID", "the image's id", id)
    }

    /// CRI-O looks the image up by its id, and reads annotations of the specification.
    fn crio(&mut self, facts: &Facts) -> Result<(), WriteError> {
        let engine = Engine::CriO;
        let status = self.status.as_ref();
        let of_status = |key| status.and_then(|status| string(status, key));
        let candidates = [
            string(&self.config, "rootfsImageRef"),
            string(&self.config, "rootfsImageID"),
            of_status("image_id"),
            of_status("imageId"),
            facts.image_id.as_deref(),
        ];
        let id = candidates.into_iter().flatten().find_map(image_id);
        let what = "the image's id";
        let id = id.ok_or(WriteError::Unknown { engine, what })?.to_owned();
        self.config.insert("rootfsImageRef".to_owned(), id.into());

        let given = match &self.status {
            Some(status) => texts(STATUS_DUMP, status.get("annotations"))?,
            None => Texts::default(),
        };
        let annotations = self.spec.entry("annotations");
        let annotations = annotations.or_insert_with(|| json!({})).as_object_mut();
        let Some(annotations) = annotations else {
            let reason = "its annotations are no object".to_owned();
            return Err(refused(SPEC_DUMP, Refusal::Json { reason }));
        };
        annotations
            .entry(CRIO_ANNOTATIONS)
            .or_insert_with(|| json!(given.0).to_string().into());
        Ok(())
    }

    /// containerd pulls the image by name and digest, and reads the status that CRI has of the container.
    fn containerd(&mut self, facts: &Facts) -> Result<(), WriteError> {
        let engine = Engine::Containerd;
        let name = string(&self.config, "rootfsImageName").unwrap_or_default();
        let reference = string(&self.config, "rootfsImageRef");
        let has_digest = |reference: &&str| digest(reference).is_some();
        let whole = reference
            .filter(has_digest)
            .or(Some(name).filter(has_digest));
        let known = facts
            .image_digest
            .as_deref()
            .filter(|digest| digest.strip_prefix("sha256:").is_some_and(is_sha256));
        let reference = match (whole, known) {
            (Some(reference), _) => reference.to_owned(),
            (None, Some(digest)) => format!("{}@{digest}", untagged(name)),
            (None, None) => {
                let what = "the image's digest";
                return Err(WriteError::Unknown { engine, what });
            }
        };
        if image_id(name).is_some() {
            let what = "the name of the image";
            return Err(WriteError::Unknown { engine, what });
        }
        if self.status.is_none() {
            self.status = Some(self.made_status(&reference)?);
        }
        self.config
            .insert("rootfsImageRef".to_owned(), reference.into());
        Ok(())
    }

    /// The status of a container that is running, as CRI would have it.
    fn made_status(&self, reference: &str) -> Result<Object, WriteError> {
        let kept = |name| {
            let text = self.annotation(name).unwrap_or("{}");
            let found = json::parse::<Texts>(text.as_bytes());
            found.map_err(|refusal| refused(SPEC_DUMP, refusal))
        };
        let id = string(&self.config, "id").unwrap_or_default();
        let image = string(&self.config, "rootfsImageName").unwrap_or_default();
        let status = json!({
            "id": id,
            "metadata": { "name": self.name().unwrap_or_default() },
            "state": 1,
            "image": { "image": image, "user_specified_image": image },
            "image_ref": reference,
            "annotations": kept(CRIO_ANNOTATIONS)?.0,
            "labels": kept(CRIO_LABELS)?.0,
        });
        match status {
            Value::Object(status) => Ok(status),
            _ => Ok(Object::new()),
        }
    }

    /// Takes out the annotations that ask for devices: the new container gets those of its own node.
    fn without_devices(&mut self) -> Result<(), WriteError> {
        let status = self
            .status
            .as_mut()
            .and_then(|status| status.get_mut("annotations"));
        let lists = [self.spec.get_mut("annotations"), status];
        for annotations in lists.into_iter().flatten() {
            let Some(annotations) = annotations.as_object_mut() else {
                continue;
            };
            annotations.retain(|name, _| !is_cdi(name));
            let Some(kept) = string(annotations, CRIO_ANNOTATIONS) else {
                continue;
            };
            let kept = json::parse::<Texts>(kept.as_bytes());
            let Texts(mut kept) = kept.map_err(|refusal| refused(SPEC_DUMP, refusal))?;
            let before = kept.len();
            kept.retain(|name, _| !is_cdi(name));
            if kept.len() < before {
                let kept = json!(kept).to_string();
                annotations.insert(CRIO_ANNOTATIONS.to_owned(), kept.into());
            }
        }
        Ok(())
    }

    /// Makes sure that the configuration says something.
    fn need(
        &mut self,
        engine: Engine,
        key: &str,
        what: &'static str,
        known: Option<&str>,
    ) -> Result<(), WriteError> {
        if string(&self.config, key).is_some() {
            return Ok(());
        }
        let known = known.ok_or(WriteError::Unknown { engine, what })?;
        self.config.insert(key.to_owned(), known.into());
        Ok(())
    }
}

fn object(member: &str, data: &[u8]) -> Result<Object, WriteError> {
    json::parse(data).map_err(|refusal| refused(member, refusal))
}

fn texts(member: &str, value: Option<&Value>) -> Result<Texts, WriteError> {
    let mut texts = BTreeMap::new();
    match value {
        None | Some(Value::Null) => {}
        Some(Value::Object(object)) => {
            for (name, value) in object {
                let Some(value) = value.as_str() else {
                    let reason = "an annotation is no text".to_owned();
                    return Err(refused(member, Refusal::Json { reason }));
                };
                texts.insert(name.clone(), value.to_owned());
            }
        }
        Some(_) => {
            let reason = "its annotations are no object".to_owned();
            return Err(refused(member, Refusal::Json { reason }));
        }
    }
    Ok(Texts(texts))
}

fn bytes(object: &Object) -> Vec<u8> {
    json!(object).to_string().into_bytes()
}

fn string<'a>(object: &'a Object, key: &str) -> Option<&'a str> {
    object.get(key)?.as_str().filter(|text| !text.is_empty())
}

/// The name of an image without tag and digest.
fn untagged(image: &str) -> &str {
    let image = image.split_once('@').map_or(image, |(name, _)| name);
    match image.rsplit_once(':') {
        // A port is followed by a path.
        Some((name, tag)) if !tag.contains('/') => name,
        _ => image,
    }
}

fn refused(member: &str, refusal: Refusal) -> WriteError {
    let member = member.to_owned();
    WriteError::Member { member, refusal }
}
