//! Reads the parts of a candidate's content.

use std::borrow::Cow;

use super::{
    answer::{AnswerState, Channel},
    streamed_call::StreamedCall,
};
use crate::{
    Dialect, Skip,
    event::{Event, Media, Opaque, Reasoning, Runner, ServerCall, Sink},
    failure::Failure,
    whole_calls::WholeCall,
    wire::json::{Encoder, Json, Kind},
};

/// A part: its content, and what its other members say about it.
#[derive(Debug, Default)]
pub(super) struct PartKind<'a> {
    content: Content<'a>,
    is_thought: bool,
    signature: Option<Json<'a>>,
    has_others: bool,
}

#[derive(Debug, Clone, Copy, Default)]
enum Content<'a> {
    #[default]
    Nothing,
    /// The raw body of a JSON string.
    Text(&'a str),
    Call(Json<'a>),
    Data(Json<'a>),
    File(Json<'a>),
    Code(Json<'a>),
    CodeResult(Json<'a>),
    ServerCall(Json<'a>),
    ServerResult(Json<'a>),
    Unknown,
}

impl<'a> PartKind<'a> {
    pub(super) fn read(part: Json<'a>) -> Self {
        let mut read = Self::default();
        for (key, value) in part.members() {
            if value.is_null() {
                continue;
            }
            let object = Some(value).filter(|value| value.kind() == Kind::Object);
            match (&*key, object) {
                ("thought", _) => read.is_thought = value.as_bool() == Some(true),
                ("thoughtSignature", _) => {
                    read.signature = Some(value).filter(|text| text.string_body() != Some(""))
                }
                ("text", _) => read.content = value.string_body().map_or(Content::Unknown, Content::Text),
                ("functionCall", Some(call)) => read.content = Content::Call(call),
                ("inlineData", Some(data)) => read.content = Content::Data(data),
                ("fileData", Some(file)) => read.content = Content::File(file),
                ("executableCode", Some(code)) => read.content = Content::Code(code),
                ("codeExecutionResult", Some(result)) => read.content = Content::CodeResult(result),
                ("toolCall", Some(call)) => read.content = Content::ServerCall(call),
                ("toolResponse", Some(result)) => read.content = Content::ServerResult(result),
                // Metadata about the content, such as how a video is sampled.
                ("videoMetadata" | "mediaResolution" | "partMetadata", _) => {}
                _ => read.has_others = true,
            }
        }
        if part.kind() != Kind::Object || (read.has_others && matches!(read.content, Content::Nothing)) {
            read.content = Content::Unknown;
        }
        read
    }

    pub(super) fn is_content(&self) -> bool {
        !matches!(self.content, Content::Nothing | Content::Unknown | Content::Text(""))
    }

    pub(super) fn is_thought(&self) -> bool {
        self.is_thought
    }

    fn signature(&self) -> Option<Opaque<'a>> {
        let text = self.signature?.as_str()?;
        Some(Opaque::new(Dialect::Gemini.name(), text))
    }
}

impl AnswerState {
    /// Emits a part. If it contains only text, also returns the raw body of that text's JSON string. `frame` is
    /// the part's frame, if it may be forwarded.
    pub(super) fn part_of_kind<'a>(
        &mut self,
        part: PartKind<'a>,
        frame: Option<&str>,
        out: &mut impl Sink,
    ) -> Result<Option<(Channel, &'a str)>, Failure> {
        let signature = part.signature();
        let plain = signature.is_none() && !part.has_others;
        let frame = frame.filter(|_| signature.is_none());
        if !matches!(part.content, Content::Call(_)) {
            self.end_streamed_call(true, out)?;
        }
        match part.content {
            Content::Text(body) if part.is_thought => {
                self.say(Channel::Thought, body, frame, out);
                sign(signature, out);
                return Ok(Some((Channel::Thought, body)).filter(|_| plain && !body.is_empty()));
            }
            Content::Text(body) => {
                sign(signature, out);
                self.say(Channel::Text, body, frame, out);
                return Ok(Some((Channel::Text, body)).filter(|_| plain && !body.is_empty()));
            }
            Content::Call(call) => return self.call(call, signature, out).map(|()| None),
            content => {
                sign(signature, out);
                self.other(content, part.is_thought, out);
            }
        }
        Ok(None)
    }

    fn other(&mut self, content: Content<'_>, is_thought: bool, out: &mut impl Sink) {
        match content {
            Content::Nothing | Content::Text(_) | Content::Call(_) => {}
            // A draft of an image; the final image follows.
            Content::Data(_) | Content::File(_) if is_thought => self.skipped.add(Skip::UnknownPart),
            Content::Data(data) => {
                let (mime, data) = (data.text("mimeType"), data.text("data"));
                out.event(Event::Media(Media { id: "".into(), mime, data }));
            }
            Content::File(file) => {
                let (id, mime) = (file.text("fileUri"), file.text("mimeType"));
                out.event(Event::Media(Media { id, mime, data: "".into() }));
            }
            Content::Code(code) => {
                let arguments = Some(without_id(code).into());
                self.ran(code, ServerCall { name: CODE_EXECUTION.into(), arguments, ..NOTHING_RAN }, out);
            }
            Content::CodeResult(result) => {
                let is_error = !matches!(&*result.text("outcome"), "OUTCOME_OK" | "");
                let content = Some(result.text("output"));
                let ran = ServerCall { name: CODE_EXECUTION.into(), content, is_error, ..NOTHING_RAN };
                self.ran(result, ran, out);
            }
            Content::ServerCall(call) => {
                let arguments = Some(call.get("args").map_or("{}", |args| args.raw()).into());
                self.ran(call, ServerCall { name: tool(call), arguments, ..NOTHING_RAN }, out);
            }
            Content::ServerResult(result) => {
                let response = result.get("response");
                let is_error = response.is_some_and(|response| response.get("error").is_some());
                let content = Some(response.map_or("{}", |response| response.raw()).into());
                self.ran(result, ServerCall { name: tool(result), content, is_error, ..NOTHING_RAN }, out);
            }
            Content::Unknown => self.skipped.add(Skip::UnknownPart),
        }
    }

    /// Emits a call that the upstream ran itself, or its result. Clients need an id to match the two, so ids
    /// are generated if the upstream sends none; a result then belongs to the latest call.
    fn ran(&mut self, part: Json<'_>, mut ran: ServerCall<'_>, out: &mut impl Sink) {
        self.server_calls += u32::from(ran.arguments.is_some());
        ran.id = part.text("id").into_owned().into();
        if ran.id.is_empty() {
            ran.id = format!("server_call_{}", self.server_calls).into();
        }
        out.event(Event::from(ran));
    }

    /// Emits a call for the client, or starts one whose arguments will arrive in pieces.
    fn call(
        &mut self,
        call: Json<'_>,
        signature: Option<Opaque<'_>>,
        out: &mut impl Sink,
    ) -> Result<(), Failure> {
        let name = call.text("name");
        let continues = call.get("willContinue").and_then(|more| more.as_bool()) == Some(true);
        let pieces = call.get("partialArgs");
        if !name.is_empty() {
            self.end_streamed_call(true, out)?;
            if !continues && pieces.is_none() {
                let arguments = call.get("args");
                let call = WholeCall { id: call.text("id"), name, arguments, signature, is_cut: false };
                return self.calls.call(call, out);
            }
            let start = StreamedCall::new(&call.text("id"), &name, call.get("args"), signature);
            self.streamed = Some(start);
        }
        let Some(streamed) = &mut self.streamed else {
            self.skipped.add(Skip::NamelessCall);
            return Ok(());
        };
        for piece in pieces.into_iter().flat_map(|pieces| pieces.elements()) {
            if !streamed.add(piece, &self.limits)? {
                self.skipped.add(Skip::UnknownPart);
            }
        }
        if continues { Ok(()) } else { self.end_streamed_call(false, out) }
    }

    /// Emits the call whose arguments arrived in pieces, if there is one.
    pub(super) fn end_streamed_call(&mut self, is_cut: bool, out: &mut impl Sink) -> Result<(), Failure> {
        let Some(call) = self.streamed.take() else { return Ok(()) };
        let arguments = call.arguments();
        let arguments = Json::parse(&arguments).ok();
        let (id, name) = (Cow::Borrowed(&*call.id), Cow::Borrowed(&*call.name));
        let signature = call.signature.clone();
        self.calls.call(WholeCall { id, name, arguments, signature, is_cut }, out)
    }
}

/// The name to use for code execution, which has no name in the API.
const CODE_EXECUTION: &str = "code_execution";

/// Emits a signature that does not belong to any text.
fn sign(signature: Option<Opaque<'_>>, out: &mut impl Sink) {
    if signature.is_some() {
        out.event(Event::Reasoning(Reasoning { signature, ..Reasoning::default() }));
    }
}

const NOTHING_RAN: ServerCall<'static> = ServerCall {
    id: Cow::Borrowed(""),
    name: Cow::Borrowed(""),
    runner: Runner::Upstream,
    server: Cow::Borrowed(""),
    arguments: None,
    content: None,
    details: None,
    is_error: false,
    approval: Cow::Borrowed(""),
};

/// The name of a tool that the upstream ran. `GOOGLE_SEARCH_WEB` becomes `google_search_web`.
fn tool(call: Json<'_>) -> Cow<'_, str> {
    let name = [call.text("name"), call.text("toolName"), call.text("toolType")].into_iter();
    let name = name.into_iter().find(|name| !name.is_empty()).unwrap_or(Cow::Borrowed("server_tool"));
    name.to_ascii_lowercase().into()
}

fn without_id(json: Json<'_>) -> String {
    let mut body = Encoder::default();
    body.object(|body| {
        for (key, value) in json.members().filter(|(key, _)| key != "id") {
            body.key(&key).raw(value);
        }
    });
    body.finish_text()
}
