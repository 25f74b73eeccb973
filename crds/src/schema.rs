//! Schemas of fields that several kinds have, with the bounds that keep CEL's cost and the objects small.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

/// Most entries of a map of labels, annotations or a selector.
const MAX_LABELS: u32 = 32;

/// Greatest integer that every JSON reader keeps exactly, 2^53 - 1.
const MAX_INTEGER: i64 = (1 << 53) - 1;

/// Name of an object.
pub(crate) fn name(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string", "minLength": 1, "maxLength": 253,
        "pattern": "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$",
    })
}

/// Name of a namespace or a container.
pub(crate) fn label_name(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string", "minLength": 1, "maxLength": 63,
        "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
    })
}

/// Names of containers or namespaces, each once.
pub(crate) fn label_names(generator: &mut SchemaGenerator) -> Schema {
    set(&label_name(generator), 64)
}

/// Names of objects, each once.
pub(crate) fn names(generator: &mut SchemaGenerator) -> Schema {
    set(&name(generator), 64)
}

/// The name of a checkpoint in its store.
pub(crate) fn checkpoint_id(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string", "minLength": 28, "maxLength": 28,
        "pattern": "^[0-9]{8}t[0-9]{6}-[0-9a-f]{12}$",
    })
}

/// Names of checkpoints, at least one, each once.
pub(crate) fn checkpoint_ids(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = set(&checkpoint_id(generator), 64);
    schema.insert("minItems".to_owned(), json!(1));
    schema
}

/// UID of an object.
pub(crate) fn uid(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "minLength": 1, "maxLength": 64, "pattern": "^[0-9A-Za-z-]+$" })
}

/// A digest with its algorithm in front.
pub(crate) fn digest(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "maxLength": 140, "pattern": "^[a-z0-9]+:[0-9a-f]{32,128}$" })
}

/// A word, version or label: short.
pub(crate) fn short_text(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "maxLength": 256 })
}

/// A message for people.
pub(crate) fn message(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "maxLength": 4096 })
}

/// The end of a log.
pub(crate) fn log_tail(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "maxLength": 8192 })
}

/// A list of short words, each once.
pub(crate) fn short_texts(generator: &mut SchemaGenerator) -> Schema {
    set(&short_text(generator), 512)
}

/// A word in camel case, as reasons are.
pub(crate) fn reason(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[A-Z][A-Za-z0-9]*$" })
}

/// A moment.
pub(crate) fn time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "date-time", "maxLength": 64 })
}

/// Bytes, or another count that may be large.
pub(crate) fn count(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "integer", "format": "int64", "minimum": 0, "maximum": MAX_INTEGER })
}

/// A gpu_id of the kernel.
pub(crate) fn gpu_id(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "integer", "format": "int64", "minimum": 1, "maximum": u32::MAX })
}

/// `observedGeneration`.
pub(crate) fn generation(generator: &mut SchemaGenerator) -> Schema {
    count(generator)
}

/// Labels to have, or to be looked for.
pub(crate) fn labels(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object", "maxProperties": MAX_LABELS,
        "additionalProperties": { "type": "string", "maxLength": 63,
            "pattern": "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$" },
    })
}

/// Annotations to have.
pub(crate) fn annotations(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object", "maxProperties": MAX_LABELS,
        "additionalProperties": { "type": "string", "maxLength": 4096 },
    })
}

/// `metav1.Condition`, one of each type.
pub(crate) fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array", "maxItems": 16,
        "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["type", "status", "reason", "message", "lastTransitionTime"],
            "properties": {
                "type": { "type": "string", "maxLength": 316, "description": "What is said to be so or not.",
                    "pattern": "^[A-Za-z][A-Za-z0-9]*$" },
                "status": { "type": "string", "enum": ["True", "False", "Unknown"],
                    "description": "Whether it is so." },
                "reason": { "type": "string", "minLength": 1, "maxLength": 1024,
                    "pattern": "^[A-Z][A-Za-z0-9]*$", "description": "Why, in one word." },
                "message": { "type": "string", "maxLength": 32768, "description": "Why, for people." },
                "lastTransitionTime": { "type": "string", "format": "date-time", "maxLength": 64,
                    "description": "When status changed last." },
                "observedGeneration": { "type": "integer", "format": "int64", "minimum": 0,
                    "maximum": MAX_INTEGER,
                    "description": "The generation of the object that this was found for." },
            },
        },
    })
}

/// The published form of a node's topology, as `rocferry_topology::CompactTopology` writes it.
pub(crate) fn topology(_: &mut SchemaGenerator) -> Schema {
    let uint = |maximum: i64, description: &str| {
        json!({ "type": "integer", "format": "int64", "minimum": 0, "maximum": maximum,
            "description": description })
    };
    let u32 = |description: &str| uint(u32::MAX.into(), description);
    let text = |max: u32, description: &str| json!({ "type": "string", "maxLength": max, "description": description });
    let nodes = |description: &str| {
        json!({ "type": "string", "maxLength": 16384, "pattern": "^([0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*)?$",
            "description": description })
    };
    let id = |description: &str| json!({ "type": "string", "maxLength": 18, "pattern": "^0x[0-9a-f]{1,16}$", "description": description });
    let links = json!({
        "type": "object", "description": "Links that start here: the nodes that they lead to.",
        "properties": {
            "pcie": nodes("PCIe: node numbers and ranges, as in 0,3-9."),
            "xgmi": nodes("XGMI, in the same form."),
            "other": { "type": "array", "maxItems": 32, "x-kubernetes-list-type": "atomic",
                "description": "Other kinds.",
                "items": { "type": "object", "required": ["type", "nodes"], "properties": {
                    "type": u32("The kernel's number of the kind."),
                    "nodes": nodes("Where they lead."),
                } } },
        },
    });
    let mut properties = Map::new();
    for (name, description) in PROPERTIES {
        properties.insert((*name).to_owned(), u32(description));
    }
    let required: Vec<Value> = properties.keys().cloned().map(Value::from).collect();
    properties.insert(
        "vram".to_owned(),
        json!({ "type": "object", "required": ["public", "size"],
            "description": "Memory of its own. Absent: an APU.",
            "properties": {
                "public": { "type": "boolean", "description": "The CPU can reach all of it." },
                "size": uint(MAX_INTEGER, "Bytes."),
            } }),
    );
    json_schema!({
        "type": "object", "required": ["version"],
        "properties": {
            "version": u32("Version of this form: 1."),
            "masked": nodes("Nodes that exist but cannot be read."),
            "xnack": { "type": "boolean", "description": "Whether a process may run with XNACK. Absent: not known." },
            "cpus": { "type": "array", "maxItems": 1024, "x-kubernetes-list-type": "atomic",
                "description": "CPU nodes.",
                "items": { "type": "object", "required": ["node", "cores"], "properties": {
                    "node": u32("Number of the node."), "cores": u32("Logical CPUs."), "links": links.clone(),
                } } },
            "models": { "type": "array", "maxItems": 64, "x-kubernetes-list-type": "atomic",
                "description": "What GPUs have in common.",
                "items": { "type": "object", "required": ["properties"], "properties": {
                    "gfxTargetVersion": u32("Version of the chip's instruction set, as in 90402."),
                    "numXcc": u32("Compute dies of the partition."),
                    "computePartition": text(16, "How the card is divided, as in CPX."),
                    "memoryPartition": text(16, "How the memory of the card is divided, as in NPS4."),
                    "properties": { "type": "object", "required": required, "properties": properties,
                        "description": "What is compared, named as in the kernel's sysfs." },
                } } },
            "gpus": { "type": "array", "maxItems": 256, "x-kubernetes-list-type": "atomic",
                "description": "GPUs, partitions of a card one by one.",
                "items": { "type": "object",
                    "required": ["node", "gpuId", "renderMinor", "domain", "model"],
                    "properties": {
                        "node": u32("Number of the node."),
                        "gpuId": uint(u32::MAX.into(), "The kernel's gpu_id."),
                        "renderMinor": u32("N of /dev/dri/renderDN."),
                        "domain": u32("PCI domain."),
                        "locationId": u32("PCI bus, device, function and partition."),
                        "uniqueId": id("Serial of the chip."),
                        "hiveId": id("The kernel's name of its hive."),
                        "model": u32("Which of the models, from 0."),
                        "links": links,
                    } } },
        },
    })
}

/// Properties of a GPU that are compared, with their meaning.
const PROPERTIES: &[(&str, &str)] = &[
    ("simdCount", "SIMD units."),
    ("memBanksCount", "Memory banks."),
    ("cachesCount", "Caches listed."),
    ("ioLinksCount", "Links as the kernel counts them."),
    ("maxWavesPerSimd", "Wave slots of a SIMD unit."),
    ("ldsSizeInKb", "Local data share of a work group, KiB."),
    ("numGws", "Global wave sync entries."),
    ("waveFrontSize", "Lanes of a wave."),
    ("arrayCount", "Shader arrays."),
    ("simdArraysPerEngine", "Shader arrays of an engine."),
    ("cuPerSimdArray", "Compute units of a shader array."),
    ("simdPerCu", "SIMD units of a compute unit."),
    ("maxSlotsScratchCu", "Scratch slots of a compute unit."),
    ("vendorId", "PCI vendor."),
    ("deviceId", "PCI device."),
    ("numSdmaEngines", "SDMA engines usable over PCIe."),
    ("numSdmaXgmiEngines", "SDMA engines reserved for XGMI."),
    ("numSdmaQueuesPerEngine", "Queues of an SDMA engine."),
    ("numCpQueues", "Compute queues."),
    ("fwVersion", "Version of the compute firmware."),
    ("capability", "Capability bits."),
    ("sdmaFwVersion", "Version of the SDMA firmware."),
];

fn set(item: &Schema, most: u32) -> Schema {
    json_schema!({
        "type": "array", "maxItems": most, "x-kubernetes-list-type": "set", "items": item,
    })
}
