//! The parts of a client's request that are stored so that its response can be interpreted again, and the memory that
//! they take.

use toolwire_pipeline::{
    conversation::{BuiltIn, Conversation, Namespaced, Rest, Tool, ToolChoice},
    dialect::Answering,
    wire::json::{ALLOCATION, memory_of_members},
};

/// Returns the parts of a request that are needed to interpret its response.
pub(super) fn for_reading(conversation: &Conversation) -> Conversation {
    let tool = |tool: &Tool| Tool {
        parameters: tool.parameters.clone(),
        strict: tool.strict,
        ..Tool::named(&*tool.name)
    };
    Conversation {
        model: conversation.model.clone(),
        tools: conversation.tools.iter().map(tool).collect(),
        custom_tools: conversation.custom_tools.clone(),
        namespaced: conversation.namespaced.clone(),
        built_in: conversation.built_in.clone(),
        hosted_tools: conversation.hosted_tools.clone(),
        server_tools: conversation.server_tools.clone(),
        tool_choice: conversation.tool_choice.clone(),
        parallel_calls: conversation.parallel_calls,
        choices: conversation.choices,
        stream: conversation.stream,
        include_usage: conversation.include_usage,
        legacy_functions: conversation.legacy_functions,
        stored: conversation.stored,
        ..Conversation::default()
    }
}

/// Memory in bytes taken by the result of [`for_reading`] and a copy of `answering`. `None` if it exceeds `limit`.
pub(super) fn size(conversation: &Conversation, answering: &Answering, limit: usize) -> Option<usize> {
    let mut left = Left(limit);
    left.text(&conversation.model)?;
    for tool in &conversation.tools {
        left.take(
            size_of::<Tool>()
                + tool.parameters.as_ref().map_or(0, |schema| ALLOCATION + schema.view().raw().len()),
        )?;
        left.text(&tool.name)?;
        if conversation.hosted_tools.contains(&tool.name) {
            // A fixture also contains the descriptions of hosted tools.
            left.text(&tool.description)?;
        }
    }
    for tool in &conversation.server_tools {
        left.text(&tool.kind)?;
        left.text(&tool.name)?;
    }
    let chosen = match &conversation.tool_choice {
        ToolChoice::Named(name) => std::slice::from_ref(name),
        ToolChoice::Allowed { names, .. } => names,
        ToolChoice::Auto | ToolChoice::None | ToolChoice::Required => &[],
    };
    let lists = [&conversation.hosted_tools, &answering.left_out].into_iter().flatten();
    lists
        .chain([&conversation.custom_tools, &answering.custom_tools].into_iter().flatten())
        .chain(chosen)
        .chain([&answering.model])
        .try_for_each(|name| left.text(name))?;
    for Namespaced { name, namespace, inner } in conversation.namespaced.iter().chain(&answering.namespaced) {
        [name, namespace, inner].into_iter().try_for_each(|name| left.text(name))?;
    }
    for BuiltIn { name, kind } in conversation.built_in.iter().chain(&answering.built_in) {
        [name, kind].into_iter().try_for_each(|name| left.text(name))?;
    }
    left.rest(&answering.repeated)?;
    Some(limit - left.0)
}

/// The number of bytes that may still be used before a limit is reached.
struct Left(usize);

impl Left {
    fn take(&mut self, bytes: usize) -> Option<()> {
        self.0 = self.0.checked_sub(bytes)?;
        Some(())
    }

    fn text(&mut self, text: &str) -> Option<()> {
        self.take(size_of::<String>() + ALLOCATION + text.len())
    }

    fn rest(&mut self, rest: &Rest) -> Option<()> {
        self.take(rest.fields().map_or(0, memory_of_members))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use super::*;
    use toolwire_pipeline::dialect::{ClientDialect, Stamp};

    const LIMIT: usize = 512 << 10;

    /// Returns the size counted for a request of the Responses API, whose responses repeat most of the request's
    /// fields.
    fn counted(body: &Value) -> Option<usize> {
        let decoded = ClientDialect::Responses.side().decode(body.to_string().as_bytes());
        let conversation = decoded.expect("a request");
        let answering = Answering::new(&conversation, Stamp::default());
        size(&conversation, &answering, LIMIT)
    }

    #[test]
    fn parsed_form_is_counted_and_not_the_text() {
        let tools = |count: usize| {
            let tool = |number| json!({"type": "function", "name": format!("t{number}"), "parameters": {}});
            json!({"model": "m", "input": "x", "tools": (0..count).map(tool).collect::<Vec<_>>()})
        };
        assert!((1_000..20_000).contains(&counted(&tools(10)).unwrap()));
        assert_eq!(counted(&tools(60_000)), None);
        let members = |count: usize| (0..count).map(|n| (format!("{n}"), Value::Null)).collect::<Map<_, _>>();
        assert!(counted(&json!({"model": "m", "input": "x", "metadata": {"a": "b"}})).is_some());
        assert_eq!(counted(&json!({"model": "m", "input": "x", "metadata": members(100_000)})), None);
        assert_eq!(counted(&json!({"model": "m", "input": "x", "text": {"a": vec![0; 100_000]}})), None);
    }

    /// Returns the counted size of what is stored of a request, and the bytes of the heap that it takes.
    fn measured(body: &Value) -> (Option<usize>, usize) {
        let (text, mut stored, mut counted) = (body.to_string(), None, None);
        let heap = allocation_counter::measure(|| {
            let decoded = ClientDialect::Responses.side().decode(text.as_bytes());
            let conversation = decoded.expect("a request");
            let answering = Answering::new(&conversation, Stamp::default());
            counted = size(&conversation, &answering, LIMIT);
            stored = Some((for_reading(&conversation), answering));
        });
        drop(stored);
        (counted, usize::try_from(heap.bytes_current).unwrap())
    }

    /// The largest request of each shape that is stored takes no more than what is counted, plus what every request takes.
    /// The next larger one is not stored. Lists double their room, so the largest may be far below the limit.
    #[test]
    fn largest_request_takes_the_bytes_of_the_limit() {
        const FIXED: usize = 4 << 10;
        let tool = |number: usize, parameters: Value| json!({"type": "function", "name": format!("t{number}"), "parameters": parameters});
        let shapes: [(&str, &dyn Fn(usize) -> Value); 5] = [
            ("tools", &|n| json!({"tools": (0..n).map(|n| tool(n, json!({}))).collect::<Vec<_>>()})),
            ("a schema", &|n| json!({"tools": [tool(0, json!({"enum": vec!["x"; n]}))]})),
            (
                "custom tools",
                &|n| json!({"tools": (0..n).map(|n| json!({"type": "custom", "name": format!("c{n}")})).collect::<Vec<_>>()}),
            ),
            (
                "members",
                &|n| json!({"metadata": (0..n).map(|n| (n.to_string(), json!("v"))).collect::<Map<_, _>>()}),
            ),
            ("elements", &|n| json!({"text": {"a": vec![0; n]}})),
        ];
        for (shape, body) in shapes {
            let measured = |n: usize| {
                let mut body = body(n);
                body["model"] = "m".into();
                body["input"] = "x".into();
                measured(&body)
            };
            measured(1);
            let (mut fits, mut beyond) = (1, LIMIT);
            while beyond - fits > 1 {
                let middle = fits.midpoint(beyond);
                match measured(middle).0 {
                    Some(_) => fits = middle,
                    None => beyond = middle,
                }
            }
            let (counted, held) = measured(fits);
            let counted = counted.expect("it is stored");
            assert!(counted > LIMIT / 2, "{shape}: {fits} with {counted} bytes are the most");
            assert!(held <= counted + FIXED, "{shape}: {held} bytes are held, {counted} are counted");
        }
    }

    /// Chat Completions responses do not repeat any of the request's fields, so only the choice itself is counted.
    #[test]
    fn names_of_a_choice_are_counted() {
        let tools = json!([{"type": "function", "function": {"name": "t"}}]);
        let counted = |times: usize| {
            let names: Vec<_> = (0..times).map(|_| tools[0].clone()).collect();
            let choice = json!({"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": names}});
            let body = json!({"model": "m", "messages": [{"role": "user", "content": "x"}], "tools": tools, "tool_choice": choice});
            let decoded = ClientDialect::Chat.side().decode(body.to_string().as_bytes());
            let conversation = decoded.expect("a request");
            size(&conversation, &Answering::new(&conversation, Stamp::default()), LIMIT)
        };
        assert!(counted(10).is_some());
        assert_eq!(counted(70_000), None);
    }

    #[test]
    fn what_only_the_upstream_gets_is_not_kept() {
        let body = json!({"model": "m", "input": "x".repeat(1 << 20), "unknown": "y".repeat(1 << 20)});
        let conversation =
            ClientDialect::Responses.side().decode(body.to_string().as_bytes()).expect("a request");
        let kept = for_reading(&conversation);
        assert!(format!("{kept:?}").len() < 2_000);
    }
}
