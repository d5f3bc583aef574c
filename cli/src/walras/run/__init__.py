"""``walras run``: the launcher of the job SDK under the name of the command."""
