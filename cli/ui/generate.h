/* Text generated from the tables of commands and options: shell completions and the OPTIONS section of the manual page.
 * scripts/generate.sh writes it to completions/ and man/; a test fails when those files are stale. */
#ifndef ZN_CLI_GENERATE_H
#define ZN_CLI_GENERATE_H

/* Prints the completion script of a shell: bash, zsh or fish. Returns 0 if there is none for this shell. */
int print_completions(const char *shell);

/* Prints the OPTIONS section of the manual page in roff. */
void print_manual_options(void);

#endif
