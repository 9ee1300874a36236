-- Messages and runs that were registered while more events were parked for them than one transaction releases.
CREATE TABLE releases (
  subject INTEGER PRIMARY KEY,
  after   INTEGER NOT NULL -- seq of the last event that was released; 0: none yet
) STRICT;
