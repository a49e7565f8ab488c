//! The structure of the code: nothing imports in a circle, the engine names no gateway, and hosts take what the engine hands on.
//! docs/architecture.md draws the parts; here stands what must stay true of them.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::string_slice, reason = "tests")]

mod source;
mod workspace;

use crate::repository;
use serde_json::Value;
use source::{CrateSource, FileImport};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::LazyLock;
use workspace::crates;

/// Names of hosts: gateways, and what they run filters with.
const HOST_NAMES: [&str; 12] = [
    "envoy",
    "proxy-wasm",
    "proxy_wasm",
    "krakend",
    "istio",
    "nginx",
    "traefik",
    "apisix",
    "haproxy",
    "higress",
    "wasmi",
    "wazero",
];

/// Where the engine may write the name of a host, and why.
const NAMED_HOSTS: [(&str, &str, &str); 5] = [
    (
        "crates/engine/src/policy/document/header_names.rs",
        "x-envoy-",
        "headers that no policy may use, on whatever host: the contract lists them",
    ),
    ("crates/engine/src/policy/document/identity.rs", "envoy.filters.http.jwt_authn", "the example in a start error"),
    (
        "crates/engine/src/json/syntax_error.rs",
        "this is a configuration of Envoy",
        "a start error about the usual mistake",
    ),
    ("crates/engine/src/json/syntax_error.rs", "the document is empty", "a start error about the usual mistake"),
    ("crates/engine/src/json/syntax_error.rs", "this is a protobuf message", "a start error about the usual mistake"),
];

/// Folders of crates that are hosts of the engine, and take only what the root of the engine hands on.
const HOSTS: [&str; 3] = [".", "crates/envoy", "crates/dynamic-module"];

const ENGINE: &str = "crates/engine";

/// Read once for all tests.
static ENGINE_SOURCE: LazyLock<CrateSource> = LazyLock::new(|| CrateSource::read(repository(), ENGINE));

/// The folders of all crates of the workspace that have sources, and not only tests.
fn members() -> Vec<String> {
    let folders = crates().into_iter().map(|member| member.folder);
    folders.filter(|folder| repository().join(folder).join("src").is_dir()).collect()
}

/// Folders of the engine that hold all of one feature, and so cut through its layers: each of their files is a room.
const FEATURES: [&str; 8] =
    ["api_keys", "collision", "in_flight", "operations", "recovery", "shadow", "signed_callers", "webhooks"];

/// Files of features that belong to the room `policy`: what the document says, what it means, and what requests need of it.
const OF_POLICY: [&str; 4] = ["compile.rs", "document.rs", "path.rs", "rules.rs"];

/// The room of a file: the folder or the file that stands directly below `src`; of a feature, the file or `policy`.
fn room(file: &str) -> String {
    let (folder, inside) = file.split_once("/src/").unwrap();
    let room = match inside.split_once('/') {
        Some((feature, part)) if folder == ENGINE && FEATURES.contains(&feature) => {
            if OF_POLICY.contains(&part) {
                "policy"
            } else {
                inside
            }
        }
        Some((name, _)) => name,
        None => inside,
    };
    format!("{folder}/src/{}", room.trim_end_matches(".rs"))
}

/// Groups of places that reach each other along imports.
fn circles(imports: &[FileImport], place: impl Fn(&str) -> String) -> Vec<BTreeSet<String>> {
    let mut arrows: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for import in imports.iter().filter(|import| place(&import.from) != place(&import.to)) {
        arrows.entry(place(&import.from)).or_default().insert(place(&import.to));
    }
    let reached_from = |start: &String| {
        let mut reached = BTreeSet::new();
        let mut open: Vec<&String> = vec![start];
        while let Some(next) = open.pop() {
            open.extend(arrows.get(next).into_iter().flatten().filter(|to| reached.insert((*to).clone())));
        }
        reached
    };
    let reached: BTreeMap<&String, BTreeSet<String>> =
        arrows.keys().map(|start| (start, reached_from(start))).collect();
    let in_circles = reached.iter().filter(|(start, to)| to.contains(**start));
    let groups =
        in_circles.map(|(start, to)| to.iter().filter(|to| reached.get(to).is_some_and(|back| back.contains(*start))));
    groups.map(|group| group.cloned().collect()).collect::<BTreeSet<_>>().into_iter().collect()
}

/// The shortest way along imports from a place of a circle back to it.
fn shortest_loop(circle: &BTreeSet<String>, imports: &[FileImport], place: impl Fn(&str) -> String) -> Vec<FileImport> {
    let loops = circle.iter().filter_map(|start| {
        let mut seen = BTreeSet::new();
        let mut ways = VecDeque::from([Vec::<FileImport>::new()]);
        while let Some(way) = ways.pop_front() {
            let at = way.last().map_or(start.clone(), |last| place(&last.to));
            if !way.is_empty() && at == *start {
                return Some(way);
            }
            let next = imports.iter().filter(|import| place(&import.from) == at && place(&import.to) != at);
            for import in next.filter(|import| circle.contains(&place(&import.to))) {
                if seen.insert(place(&import.to)) {
                    ways.push_back([way.as_slice(), std::slice::from_ref(import)].concat());
                }
            }
        }
        None
    });
    loops.min_by_key(Vec::len).unwrap_or_default()
}

/// What to tell about circles.
fn told(circles: &[BTreeSet<String>], imports: &[FileImport], place: impl Fn(&str) -> String + Copy) -> String {
    let mut text = String::new();
    for circle in circles {
        text += &format!("\nimports run in a circle, through {} places; the shortest one:\n", circle.len());
        for import in shortest_loop(circle, imports, place) {
            let names: Vec<&str> = import.names.iter().map(String::as_str).collect();
            text += &format!("  {} takes {} from {}\n", import.from, names.join(", "), import.to);
        }
        text +=
            "Open it: move what both sides need into a file that imports neither of them, or pass it as an argument.\n";
    }
    text
}

#[test]
fn no_files_and_no_rooms_import_each_other() {
    let check = |imports: &[FileImport], place: &dyn Fn(&str) -> String| {
        let circles = circles(imports, place);
        assert!(circles.is_empty(), "{}", told(&circles, imports, place));
    };
    for folder in members() {
        let imports =
            if folder == ENGINE { ENGINE_SOURCE.imports() } else { CrateSource::read(repository(), &folder).imports() };
        assert!(folder != ENGINE || imports.len() > 200, "only {} imports were found", imports.len());
        check(&imports, &str::to_owned);
        if !folder.starts_with("tests/") {
            check(&imports, &room);
        }
    }
}

#[test]
fn the_engine_names_no_host() {
    let found = ENGINE_SOURCE.mentions(&HOST_NAMES);
    let is_allowed =
        |file: &str, text: &str| NAMED_HOSTS.iter().any(|(place, part, _)| *place == file && text.contains(part));
    let new: Vec<_> = found.iter().filter(|(file, text)| !is_allowed(file, text)).collect();
    assert!(
        new.is_empty(),
        "the engine names a host: {new:#?}\nThe engine is the same on every gateway. Move what is a gateway's own to its crate \
         (crates/envoy/, src/, krakend/), and hand it to the engine by `Gateway` or `Host`. A text that users need goes into NAMED_HOSTS, with its reason."
    );
    for (place, part, _) in NAMED_HOSTS {
        let is_there = found.iter().any(|(file, text)| file == place && text.contains(part));
        assert!(is_there, "{place} has no `{part}` any more: take it out of NAMED_HOSTS");
    }
}

/// What a host can use of the engine. The modules of the engine are for the command and the tests.
const FOR_HOSTS: [&str; 35] = [
    "AttributeValue",
    "Attributes",
    "Body",
    "Call",
    "CallReply",
    "Clock",
    "Configuration",
    "FilterAction",
    "Gateway",
    "HeaderLines",
    "HeaderMapKind",
    "Headers",
    "Host",
    "HostError",
    "Issue",
    "LocalReply",
    "LogLevel",
    "MAX_REPLY_BYTES",
    "MetadataJson",
    "MetadataPath",
    "MetricId",
    "MetricKind",
    "MetricSeries",
    "Metrics",
    "OperatorAdvice",
    "PolicyErrors",
    "RECORD_TYPE",
    "RouterHints",
    "SecretReader",
    "Stream",
    "TICK_MS",
    "append_field",
    "equal_bytes",
    "metric_names",
    "needs_as_json",
];

#[test]
fn the_engine_hands_on_what_is_listed() {
    let handed_on: Vec<&str> = ENGINE_SOURCE.handed_on().iter().map(String::as_str).collect();
    assert_eq!(handed_on, FOR_HOSTS, "every host has to learn a new name: is it needed?");
    let root = std::fs::read_to_string(repository().join("crates/engine/src/lib.rs")).unwrap();
    let lines: Vec<&str> = root.lines().collect();
    for pair in lines.windows(2).filter(|pair| pair[1].starts_with("pub mod ")) {
        assert_eq!(pair[0], "#[doc(hidden)]", "{} is shown to hosts", pair[1]);
    }
}

/// What a crate takes of the engine and the engine does not hand on at its root, each with its file.
fn hidden_names(host: &CrateSource, engine: &CrateSource) -> Vec<(String, String)> {
    let taken = host.taken_from("edge_idempotency_engine").into_iter();
    taken.filter(|(_, path)| !engine.handed_on().contains(path.split("::").next().unwrap())).collect()
}

#[test]
fn hosts_take_what_the_engine_hands_on() {
    for folder in HOSTS {
        let hidden = hidden_names(&CrateSource::read(repository(), folder), &ENGINE_SOURCE);
        assert!(
            hidden.is_empty(),
            "{folder} takes from modules of the engine: {hidden:#?}\nRe-export the name in crates/engine/src/lib.rs, if every host needs it; \
             otherwise use what is there."
        );
    }
}

/// Whoever changes a line that `make mutants` plants a fault in changes the fault, too.
#[test]
fn each_planted_fault_has_its_place() {
    let read = |path: &str| std::fs::read_to_string(repository().join(path)).unwrap_or_default();
    let parts: Value = serde_json::from_str(&read("tests/mutants/planted.json")).unwrap();
    let mut wrong = Vec::new();
    for part in parts.as_array().unwrap() {
        for fault in part["faults"].as_array().unwrap() {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            let (file, find) = (text(&part["folder"]) + "/" + &text(&fault["file"]), text(&fault["find"]));
            if read(&file).matches(&find).count() != 1 {
                wrong.push(format!("{file}: {}: the file has to have this once: {find}", text(&fault["what"])));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}
