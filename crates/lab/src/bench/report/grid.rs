//! [`Grid`]: a plain-text table in aligned columns, at most as wide as the terminal.

use std::ops::Range;

use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};

/// A table before it is fitted to a width.
pub(crate) struct Grid {
    /// The rows. The first holds the column headings.
    rows: Vec<Vec<String>>,
    /// Number of leading columns that hold names; all further columns hold numbers.
    names: usize,
}

/// Width between two columns: the padding on both sides, and the line between.
const GAP: usize = 3;

impl Grid {
    /// Creates a table with these headings. If the table is too wide, its first `names` columns are repeated in each
    /// continuation.
    pub(crate) fn new<T: Into<String>>(heads: impl IntoIterator<Item = T>, names: usize) -> Self {
        Self { rows: vec![heads.into_iter().map(Into::into).collect()], names }
    }

    pub(crate) fn add_row<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// Returns the table in lines of at most `width` characters. Columns that do not fit are moved to another table below,
    /// which repeats the names. A line may be longer if not even one column of numbers fits beside the names.
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
                // No gap follows the last column.
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

    /// Renders the columns of names and the columns in `numbers`.
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
