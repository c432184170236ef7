//! `toolwire check --doctor`: tests each upstream, and what the configuration uses on this machine.

use std::process::ExitCode;

use serde_json::{Value, json};
use tokio::runtime::Builder;

use super::told;
use crate::cli::{block_on::block_on, output::failed, problems, results};
use toolwire_config::{Config, Problem};
use toolwire_gateway::{
    doctor::{Diagnosis, Finding, Grade, Health, examine, examine_machine},
    observe::untrusted_text::escaped,
};

/// Tests the upstreams and the machine, and prints one line for each result, after the `warnings` about the
/// configuration.
pub(super) fn run(config: &Config, warnings: &[Problem], is_json: bool) -> ExitCode {
    let examined = async { (examine(config).await, examine_machine(config).await) };
    let (found, machine) = match block_on(Builder::new_current_thread(), examined) {
        Ok(found) => found,
        Err(error) => return failed(error, None),
    };
    let is_well = found.iter().all(|diagnosis| diagnosis.verdict.is_ok())
        && machine.iter().all(|finding| finding.grade != Grade::Error);
    let status = if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    if is_json {
        let upstreams: Vec<_> = found.iter().map(value).collect();
        let told = json!({ "ok": is_well, "problems": told(warnings), "upstreams": upstreams, "machine": machine.iter().map(finding_value).collect::<Vec<_>>() });
        return results(status, |out| writeln!(out, "{told:#}"));
    }
    problems::say(warnings);
    results(status, |out| {
        found.iter().try_for_each(|diagnosis| out.write_all(line(diagnosis).as_bytes()))?;
        machine.iter().try_for_each(|Finding { part, grade, message }| {
            writeln!(out, "{part}: {grade}: {}", escaped(message))
        })
    })
}

fn finding_value(Finding { part, grade, message }: &Finding) -> Value {
    json!({ "part": part, "grade": grade.to_string(), "message": message })
}

pub(in crate::cli) fn line(diagnosis: &Diagnosis) -> String {
    let Diagnosis { upstream, address, took, verdict, warnings } = diagnosis;
    let mut text = match verdict {
        Ok(health) => format!("{upstream}: ok: {health}, in {} ms ({address})\n", took.as_millis()),
        Err(fault) => {
            format!("{upstream}: error: {}: {} ({address})\n", fault.part, escaped(&fault.message))
        }
    };
    for warning in warnings {
        text += &format!("{upstream}: warning: {}\n", escaped(warning));
    }
    text
}

fn value(diagnosis: &Diagnosis) -> Value {
    let Diagnosis { upstream, address, took, verdict, warnings } = diagnosis;
    let mut value = json!({ "name": upstream, "address": address, "ok": verdict.is_ok() });
    let fields = match verdict {
        Ok(health) => {
            let models = match health {
                Health::Lists(count) => Some(count),
                Health::Reachable(_) => None,
            };
            json!({ "message": health.to_string(), "models": models, "millis": took.as_millis().min(u64::MAX.into()) as u64 })
        }
        Err(fault) => json!({ "part": fault.part.to_string(), "message": fault.message }),
    };
    if let (Value::Object(value), Value::Object(fields)) = (&mut value, fields) {
        value.extend(fields);
        value.insert("warnings".to_owned(), json!(warnings));
    }
    value
}
