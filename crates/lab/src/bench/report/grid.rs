//! [`Grid`]: a plain-text table in aligned columns, at most as wide as the terminal.

use std::ops::Range;

use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};

/// A table before it is fitted to a width.
pub(crate) struct Grid {
    /// The heads, and the rows.
    rows: Vec<Vec<String>>,
    /// Number of columns at the start that hold names; the remaining columns hold numbers.
    names: usize,
}

/// Width between two columns of the table: the padding of both, and the line between them.
const GAP: usize = 3;

impl Grid {
    /// Creates a table with these heads. Its first `names` columns are repeated where it is continued.
    pub(crate) fn new<T: Into<String>>(heads: impl IntoIterator<Item = T>, names: usize) -> Self {
        Self { rows: vec![heads.into_iter().map(Into::into).collect()], names }
    }

    /// Adds a row.
    pub(crate) fn add_row<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// Returns the table in lines of at most `width` columns, if at least one column of numbers fits next to
    /// the names. Columns that do not fit continue in another table below, with the names repeated.
    pub(crate) fn fitted(&self, width: usize) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or_default();
        let widths: Vec<_> = (0..columns).map(|column| self.width(column)).collect();
        let (names, numbers) = widths.split_at_checked(self.names).unwrap_or((&widths, &[]));
        let room = width.saturating_sub(names.iter().map(|width| width + GAP).sum());
        let mut tables = Vec::new();
        let mut first = 0;
        while let Some(rest) = numbers.get(first..).filter(|rest| !rest.is_empty()) {
            let mut taken = 0;
            let fitting = rest.iter().take_while(|&&width| {
                taken += width + GAP;
                // The last column has no gap after it.
                taken <= room + 1
            });
            let end = first + fitting.count().max(1);
            tables.push(self.part(self.names + first..self.names + end));
            first = end;
        }
        tables.join("\n\n")
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
    }

    /// The table of the names and the columns `numbers`.
    fn part(&self, numbers: Range<usize>) -> String {
        let cells = |row: &Vec<String>| {
            let cells = row.iter().enumerate();
            let cells = cells.filter(|(column, _)| *column < self.names || numbers.contains(column));
            cells.map(|(_, cell)| cell.clone()).collect::<Vec<_>>()
        };
        let rule = LineStyle::none().fill('─').junction('─');
        let mut table = Table::new();
        table
            .load_style(TableStyle::new().header_separator(rule))
            .set_content_arrangement(ContentArrangement::Disabled);
        let mut rows = self.rows.iter().map(cells);
        table.set_header(rows.next().unwrap_or_default());
        table.add_rows(rows);
        for (column, shape) in table.column_iter_mut().enumerate() {
            shape.set_padding((0, 2));
            let is_name = column < self.names;
            shape.set_cell_alignment(if is_name { CellAlignment::Left } else { CellAlignment::Right });
        }
        table.trim_fmt()
    }
}
