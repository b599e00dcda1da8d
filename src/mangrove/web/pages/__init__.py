"""How each page of the explorer looks: functions from facts to HTML."""
