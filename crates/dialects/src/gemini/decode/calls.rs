//! [`CallIds`]: gives an id to each call and each result, since clients may leave them out.

use std::collections::{HashMap, HashSet, VecDeque};

use super::part::GENERATED_ID;

/// Matches results to calls: by their ids, or else by the tool's name and their order.
#[derive(Debug, Default)]
pub(super) struct CallIds {
    /// Number of generated ids.
    generated: usize,
    /// The ids of the calls of each tool, in order.
    calls: HashMap<String, VecDeque<String>>,
    answered: HashSet<String>,
}

impl CallIds {
    /// Notes a call, and gives it an id if it has none.
    pub(super) fn call(&mut self, id: &mut String, name: &str) {
        if id.is_empty() {
            *id = self.generate();
        }
        self.calls.entry(name.to_owned()).or_default().push_back(id.clone());
    }

    /// Gives a result the id of the first call to `name` that has no result yet, unless the result has an id.
    pub(super) fn result(&mut self, id: &mut String, name: &str) {
        if !id.is_empty() {
            self.answered.insert(id.clone());
            return;
        }
        while let Some(call) = self.calls.get_mut(name).and_then(VecDeque::pop_front) {
            if self.answered.insert(call.clone()) {
                *id = call;
                return;
            }
        }
        *id = self.generate();
    }

    fn generate(&mut self) -> String {
        let id = format!("{GENERATED_ID}{}", self.generated);
        self.generated += 1;
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_without_ids_belong_to_calls_of_the_same_tool_in_order() {
        let mut ids = CallIds::default();
        let mut call = |id: &str, name: &str| {
            let mut id = id.to_owned();
            ids.call(&mut id, name);
            id
        };
        let made = [call("", "f"), call("x", "g"), call("", "f"), call("y", "g")];
        assert_eq!(made, ["call_unnamed_0", "x", "call_unnamed_1", "y"]);
        let mut result = |id: &str, name: &str| {
            let mut id = id.to_owned();
            ids.result(&mut id, name);
            id
        };
        let answered = [result("x", "g"), result("", "f"), result("", "g"), result("", "f"), result("", "h")];
        assert_eq!(answered, ["x", "call_unnamed_0", "y", "call_unnamed_1", "call_unnamed_2"]);
    }
}
