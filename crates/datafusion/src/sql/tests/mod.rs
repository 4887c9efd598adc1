//! Tests of whole scripts.

mod errors;
mod lowering;
mod statements;
mod wild;

use super::*;

/// The relations and the query of a lowered query, one per line, as SQL.
fn shown(query: &LoweredQuery) -> String {
    let mut lines: Vec<String> = query.relations.iter().map(shown_relation).collect();
    lines.push(query.query.to_string());
    lines.join("\n").replace("__fluvial_relation_", "$")
}

fn shown_relation(relation: &Relation) -> String {
    let stream = |reading: Reading| if reading == Reading::Stream { "stream " } else { "" };
    let definition = match &relation.definition {
        Definition::Source(call) => {
            let arguments: Vec<String> = call.arguments.iter().map(shown_argument).collect();
            format!("{}{}({})", stream(call.reading), call.function, arguments.join(", "))
        }
        Definition::Table { name, reading, options } => {
            let options = options.iter().map(|(name, value)| format!(" {name}={value}"));
            format!("{}{name}{}", stream(*reading), options.collect::<String>())
        }
        Definition::Derived(query) => format!("({query})"),
    };
    let watermark = relation.watermark.as_ref().map_or_else(String::new, |clause| {
        let name = clause.name.as_ref().map_or_else(String::new, |name| format!(" as {name}"));
        format!(" watermark {}{name} delay {}us", clause.expr, clause.delay.0)
    });
    format!("{} = {definition}{watermark}", relation.name)
}

fn shown_argument(argument: &Argument) -> String {
    match &argument.name {
        Some(name) => format!("{name} => {:?}", argument.value),
        None => format!("{:?}", argument.value),
    }
}

/// The only statement of a script.
fn one(text: &str) -> Command {
    let mut statements = parse_script(text).unwrap_or_else(|error| panic!("{text}\n{error}"));
    assert_eq!(statements.len(), 1, "{text}");
    statements.remove(0).command
}

/// The message of the error of a script.
fn error(text: &str) -> String {
    match parse_script(text) {
        Ok(statements) => panic!("{text}\nwas accepted: {statements:?}"),
        Err(error) => error.to_string(),
    }
}
