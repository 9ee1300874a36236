-- Routes whose destination asked not to be called for a while (429 with Retry-After).
CREATE TABLE paused (
  route   INTEGER PRIMARY KEY,
  breaker TEXT NOT NULL,    -- names the settings it holds for: other settings begin without a pause
  until   INTEGER NOT NULL  -- unix ms
) STRICT;
