//! A processor of one's own: how many wins of a player follow each other.

use fluvial::transform::{
    Call, HandlerResult, InputRows, Key, StatefulProcessor, ValueState, Variables,
};

/// Says each time that a player has won three times in a row.
#[derive(Default)]
pub struct Streaks {
    wins: ValueState<i64>,
}

impl StatefulProcessor for Streaks {
    fn init(&mut self, variables: &mut Variables) -> fluvial::Result<()> {
        self.wins = variables.value("wins")?;
        Ok(())
    }

    fn handle_input_rows(
        &self,
        key: &Key<'_>,
        rows: InputRows<'_>,
        call: &mut Call<'_>,
    ) -> HandlerResult {
        let player = key.get::<&str>("player")?;
        let mut wins = self.wins.get(call)?.unwrap_or_default();
        for row in rows.iter() {
            let (game, won): (i64, bool) = (row.get("game")?, row.get("won")?);
            wins = if won { wins + 1 } else { 0 };
            if wins == 3 {
                call.emit((player, game))?;
                wins = 0;
            }
        }
        self.wins.update(call, wins)?;
        Ok(())
    }
}
