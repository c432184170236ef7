//! A small backtracking matcher for GBNF grammars, fast enough only for tests.

use std::collections::HashMap;

#[derive(Debug)]
enum Item {
    Literal(Vec<char>),
    Class { negated: bool, ranges: Vec<(char, char)> },
    Rule(String),
    Group(Vec<Vec<Item>>),
    Repeat { item: Box<Item>, least: usize, most: usize },
}

#[derive(Debug)]
pub(super) struct Grammar {
    rules: HashMap<String, Vec<Vec<Item>>>,
}

struct Reader<'a> {
    chars: std::iter::Peekable<std::str::Chars<'a>>,
}

impl Grammar {
    /// Parses a grammar with one rule per line.
    pub(super) fn read(text: &str) -> Self {
        let mut rules = HashMap::new();
        for line in text.lines() {
            let (name, body) = line.split_once(" ::= ").unwrap_or_else(|| panic!("no rule: {line}"));
            assert!(name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '-'), "{name}");
            let mut reader = Reader { chars: body.chars().peekable() };
            let body = reader.alternatives();
            assert!(reader.chars.next().is_none(), "text is left over: {line}");
            assert!(rules.insert(name.to_owned(), body).is_none(), "two rules `{name}`");
        }
        let grammar = Self { rules };
        grammar.rules.values().for_each(|rule| grammar.check(rule));
        grammar
    }

    fn check(&self, alternatives: &[Vec<Item>]) {
        for item in alternatives.iter().flatten() {
            match item {
                Item::Rule(name) => assert!(self.rules.contains_key(name), "no rule `{name}`"),
                Item::Group(inner) => self.check(inner),
                Item::Repeat { item, .. } => {
                    if let Item::Rule(name) = &**item {
                        assert!(self.rules.contains_key(name), "no rule `{name}`");
                    }
                }
                Item::Literal(_) | Item::Class { .. } => {}
            }
        }
    }

    pub(super) fn has(&self, text: &str) -> bool {
        let text: Vec<char> = text.chars().collect();
        self.any(&self.rules["root"], &text, 0).contains(&text.len())
    }

    /// Returns every position at which a match that begins at `at` may end.
    fn any(&self, alternatives: &[Vec<Item>], text: &[char], at: usize) -> Vec<usize> {
        let mut ends: Vec<usize> =
            alternatives.iter().flat_map(|sequence| self.sequence(sequence, text, at)).collect();
        ends.sort_unstable();
        ends.dedup();
        ends
    }

    fn sequence(&self, items: &[Item], text: &[char], at: usize) -> Vec<usize> {
        let mut places = vec![at];
        for item in items {
            places = places.iter().flat_map(|at| self.item(item, text, *at)).collect();
            places.sort_unstable();
            places.dedup();
        }
        places
    }

    fn item(&self, item: &Item, text: &[char], at: usize) -> Vec<usize> {
        match item {
            Item::Literal(literal) => {
                text[at..].starts_with(literal).then(|| at + literal.len()).into_iter().collect()
            }
            Item::Class { negated, ranges } => {
                let is_in = |letter: &char| ranges.iter().any(|(from, to)| (from..=to).contains(&letter));
                let fits = text.get(at).is_some_and(|letter| is_in(letter) != *negated);
                fits.then_some(at + 1).into_iter().collect()
            }
            Item::Rule(name) => self.any(&self.rules[name], text, at),
            Item::Group(alternatives) => self.any(alternatives, text, at),
            Item::Repeat { item, least, most } => {
                let mut ends = if *least == 0 { vec![at] } else { Vec::new() };
                let mut places = vec![at];
                for times in 1..=*most {
                    let next: Vec<usize> = places.iter().flat_map(|at| self.item(item, text, *at)).collect();
                    places = next.into_iter().filter(|place| !ends.contains(place)).collect();
                    places.sort_unstable();
                    places.dedup();
                    if places.is_empty() {
                        break;
                    }
                    if times >= *least {
                        ends.extend(&places);
                    }
                }
                ends
            }
        }
    }
}

impl Reader<'_> {
    fn blanks(&mut self) {
        while self.chars.next_if_eq(&' ').is_some() {}
    }

    fn alternatives(&mut self) -> Vec<Vec<Item>> {
        let mut all = vec![Vec::new()];
        loop {
            self.blanks();
            match self.chars.peek() {
                None | Some(')') => return all,
                Some('|') => {
                    self.chars.next();
                    all.push(Vec::new());
                }
                Some(_) => {
                    let item = self.one();
                    let item = self.repeated(item);
                    all.last_mut().unwrap().push(item);
                }
            }
        }
    }

    fn one(&mut self) -> Item {
        match self.chars.next().unwrap() {
            '"' => {
                let mut literal = Vec::new();
                while self.chars.next_if_eq(&'"').is_none() {
                    literal.push(self.letter());
                }
                Item::Literal(literal)
            }
            '[' => {
                let negated = self.chars.next_if_eq(&'^').is_some();
                let mut ranges = Vec::new();
                while self.chars.next_if_eq(&']').is_none() {
                    let from = self.letter();
                    // A dash before the closing bracket is literal.
                    let mut rest = self.chars.clone();
                    let is_range = rest.next() == Some('-') && rest.next() != Some(']');
                    let to = if is_range { self.chars.next().map(|_| self.letter()).unwrap() } else { from };
                    ranges.push((from, to));
                }
                Item::Class { negated, ranges }
            }
            '(' => {
                let inner = self.alternatives();
                assert_eq!(self.chars.next(), Some(')'));
                Item::Group(inner)
            }
            first => {
                let mut name = String::from(first);
                while let Some(letter) =
                    self.chars.next_if(|letter| letter.is_ascii_alphanumeric() || *letter == '-')
                {
                    name.push(letter);
                }
                assert!(first.is_ascii_alphanumeric(), "unexpected {first:?}");
                Item::Rule(name)
            }
        }
    }

    fn letter(&mut self) -> char {
        match self.chars.next().unwrap() {
            '\\' => match self.chars.next().unwrap() {
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'x' => self.code(2),
                'u' => self.code(4),
                other @ ('"' | '\\' | '[' | ']') => other,
                other => panic!("an escape that GBNF does not have: \\{other}"),
            },
            other => other,
        }
    }

    fn code(&mut self, digits: usize) -> char {
        let code: String = self.chars.by_ref().take(digits).collect();
        char::from_u32(u32::from_str_radix(&code, 16).unwrap()).unwrap()
    }

    fn repeated(&mut self, item: Item) -> Item {
        let (least, most) = match self.chars.peek() {
            Some('?') => (0, 1),
            Some('*') => (0, usize::MAX),
            Some('+') => (1, usize::MAX),
            Some('{') => {
                let bounds: String =
                    self.chars.by_ref().take_while(|letter| *letter != '}').skip(1).collect();
                let (least, most) = bounds.split_once(',').unwrap_or((&bounds, &bounds));
                let most = if most.is_empty() { usize::MAX } else { most.parse().unwrap() };
                return Item::Repeat { item: Box::new(item), least: least.parse().unwrap(), most };
            }
            _ => return item,
        };
        self.chars.next();
        Item::Repeat { item: Box::new(item), least, most }
    }
}
