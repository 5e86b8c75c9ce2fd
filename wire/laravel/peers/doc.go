// Package peers tests package laravel beside real workers and producers of Laravel, as processes.
// Debian's packages of Laravel 8.83 are enough: the application is in app.
package peers
