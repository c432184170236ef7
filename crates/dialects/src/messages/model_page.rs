//! Pages of the list of models in Anthropic's API (docs/protocols/messages.md#models).

use serde_json::{Value, json};

use crate::{
    failure::{Failure, Kind},
    percent_decoded,
};

/// The most models of a page.
const MAX_LIMIT: usize = 1000;

/// Which part of the list a request asks for. Without a limit, it gets all.
#[derive(Debug, Default)]
pub(super) struct Page {
    limit: Option<usize>,
    before: Option<String>,
    after: Option<String>,
}

impl Page {
    /// Reads the query of a request.
    ///
    /// # Errors
    /// [`Kind::Request`], in the words of Anthropic's API.
    pub(super) fn of_query(query: Option<&str>) -> Result<Self, Failure> {
        let mut page = Self::default();
        for pair in query.unwrap_or_default().split('&') {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let id = |key: &str| match percent_decoded(value).filter(|id| !id.is_empty()) {
                Some(id) => Ok(Some(id)),
                None => Err(refused(key, "Input should be the id of a model")),
            };
            match key {
                "limit" => page.limit = Some(limit(value)?),
                "before_id" => page.before = id(key)?,
                "after_id" => page.after = id(key)?,
                _ => {}
            }
        }
        match (&page.before, &page.after) {
            (Some(_), Some(_)) => {
                Err(refused("before_id", "Input should not be given together with `after_id`"))
            }
            _ => Ok(page),
        }
    }

    /// The page of `models`, in order.
    ///
    /// # Errors
    /// [`Kind::Request`] if the list does not have the model at which the page begins or ends.
    pub(super) fn of(&self, models: &[Value]) -> Result<Value, Failure> {
        let place = |key: &str, id: &str| {
            let place = models.iter().position(|model| model.get("id").and_then(Value::as_str) == Some(id));
            place.ok_or_else(|| refused(key, "Input should be the id of a model in the list"))
        };
        let limit = self.limit.unwrap_or(usize::MAX);
        let (page, has_more) = match (&self.before, &self.after) {
            (Some(id), _) => {
                let before = models.get(..place("before_id", id)?).unwrap_or_default();
                let rest = before.len().saturating_sub(limit);
                (before.get(rest..), rest > 0)
            }
            (None, after) => {
                let begin =
                    after.as_ref().map_or(Ok(0), |id| place("after_id", id).map(|place| place + 1))?;
                let behind = models.get(begin..).unwrap_or_default();
                (behind.get(..limit).or(Some(behind)), behind.len() > limit)
            }
        };
        let page = page.unwrap_or_default();
        let id = |model: Option<&Value>| model.and_then(|model| model.get("id")).cloned();
        Ok(
            json!({ "first_id": id(page.first()), "last_id": id(page.last()), "has_more": has_more, "data": page }),
        )
    }
}

fn limit(value: &str) -> Result<usize, Failure> {
    let number: i128 = value.parse().map_err(|_| {
        refused("limit", "Input should be a valid integer, unable to parse string as an integer")
    })?;
    if number < 1 {
        return Err(refused("limit", "Input should be greater than or equal to 1"));
    }
    usize::try_from(number)
        .ok()
        .filter(|limit| *limit <= MAX_LIMIT)
        .ok_or_else(|| refused("limit", &format!("Input should be less than or equal to {MAX_LIMIT}")))
}

fn refused(key: &str, why: &str) -> Failure {
    Failure::new(Kind::Request, format!("{key}: {why}")).with_param(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(query: &str, count: usize) -> Result<(Vec<usize>, bool), String> {
        let models: Vec<_> = (0..count).map(|number| json!({ "id": format!("m/{number}") })).collect();
        let page = Page::of_query(Some(query)).and_then(|page| page.of(&models));
        let page = page.map_err(|failure| failure.message().to_owned())?;
        let data = page["data"].as_array().unwrap();
        assert_eq!(
            (data.first().map(|it| &it["id"]), data.last().map(|it| &it["id"])),
            (page.get("first_id").filter(|id| !id.is_null()), page.get("last_id").filter(|id| !id.is_null()))
        );
        let number =
            |model: &Value| model["id"].as_str().unwrap().strip_prefix("m/").unwrap().parse().unwrap();
        Ok((data.iter().map(number).collect(), page["has_more"].as_bool().unwrap()))
    }

    #[test]
    fn pages_are_cut_from_the_list() {
        for (query, expected) in [
            ("", ((0..5).collect::<Vec<_>>(), false)),
            ("limit=1000&x=limit", ((0..5).collect(), false)),
            ("limit=5", ((0..5).collect(), false)),
            ("limit=4", ((0..4).collect(), true)),
            ("limit=1&limit=2", (vec![0, 1], true)),
            ("after_id=m/1", (vec![2, 3, 4], false)),
            ("limit=2&after_id=m%2F1", (vec![2, 3], true)),
            ("limit=2&after_id=m%2F2", (vec![3, 4], false)),
            ("after_id=m/4", (Vec::new(), false)),
            ("limit=2&before_id=m%2F4", (vec![2, 3], true)),
            ("limit=2&before_id=m/2", (vec![0, 1], false)),
            ("before_id=m/0", (Vec::new(), false)),
        ] {
            assert_eq!(page(query, 5), Ok(expected), "{query}");
        }
        assert_eq!(page("limit=3", 0), Ok((Vec::new(), false)));
    }

    #[test]
    fn all_pages_together_are_the_list() {
        for limit in 1..=6 {
            let (mut seen, mut more, mut query) = (Vec::new(), true, format!("limit={limit}"));
            while more {
                let (numbers, has_more) = page(&query, 5).unwrap();
                seen.extend(numbers);
                more = has_more;
                query = format!("limit={limit}&after_id=m/{}", seen.last().unwrap());
            }
            assert_eq!(seen, (0..5).collect::<Vec<_>>());
        }
    }

    #[test]
    fn wrong_queries_are_refused() {
        for (query, why) in [
            ("limit=0", "limit: Input should be greater than or equal to 1"),
            ("limit=-5", "limit: Input should be greater than or equal to 1"),
            ("limit=1001", "limit: Input should be less than or equal to 1000"),
            ("limit=99999999999999999999999", "limit: Input should be less than or equal to 1000"),
            ("limit=", "limit: Input should be a valid integer"),
            ("limit", "limit: Input should be a valid integer"),
            ("limit=x", "limit: Input should be a valid integer"),
            ("after_id=", "after_id: Input should be the id"),
            ("after_id=%ff", "after_id: Input should be the id"),
            ("after_id=m/9", "after_id: Input should be the id of a model in the list"),
            ("before_id=m/9", "before_id: Input should be the id of a model in the list"),
            ("before_id=m/1&after_id=m/2", "before_id: Input should not be given together"),
        ] {
            let refused = page(query, 5).unwrap_err();
            assert!(refused.starts_with(why), "{query}: {refused}");
        }
    }
}
