// The tests of the web UI in a real browser, apart from the server's own tests because
// they need that browser.
module millrace/test/browser

go 1.26.0

require millrace v0.0.0-00010101000000-000000000000

replace millrace => ../..
