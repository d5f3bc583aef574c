"""The snapshot service: the market's last word, kept where readers find it without the market."""
