/* onterminal [-i TEXT | -o] COMMAND...: runs a command with stderr, with -o also stdout, on a terminal (100 columns)
 * and copies to stdout what the command writes there, escape characters as "^[" and carriage returns as "^M". With -i
 * it sends SIGINT when TEXT has appeared. Exits as the command did; 128 + the signal's number if a signal ended it. */
#define _XOPEN_SOURCE 700
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char seen[1 << 20];
static size_t length;

static int open_terminal(int *slave)
{
    const int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (master < 0 || grantpt(master) || unlockpt(master))
        return -1;
    *slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    return *slave < 0 ? -1 : master;
}

static void print_visibly(void)
{
    for (size_t i = 0; i < length; i++) {
        if (seen[i] == '\033')
            fputs("^[", stdout);
        else if (seen[i] == '\r')
            fputs("^M", stdout);
        else
            putchar(seen[i]);
    }
}

int main(int argc, char **argv)
{
    const char *trigger = NULL;
    int first = 1, slave, output = 0;
    if (argc > 3 && !strcmp(argv[1], "-i")) {
        trigger = argv[2];
        first = 3;
    } else if (argc > 2 && !strcmp(argv[1], "-o")) {
        output = 1;
        first = 2;
    }
    const int master = argc > first ? open_terminal(&slave) : -1;
    if (master < 0) {
        perror("onterminal");
        return 125;
    }
    setenv("COLUMNS", "100", 1);
    const pid_t child = fork();
    if (child == 0) {
        dup2(slave, STDERR_FILENO);
        if (output)
            dup2(slave, STDOUT_FILENO);
        close(master);
        close(slave);
        execvp(argv[first], argv + first);
        _exit(127);
    }
    close(slave);
    for (ssize_t n; length < sizeof seen - 1 && (n = read(master, seen + length, sizeof seen - 1 - length)) > 0;) {
        length += (size_t)n;
        seen[length] = 0;
        if (trigger && strstr(seen, trigger)) {
            kill(child, SIGINT);
            trigger = NULL;
        }
    }
    close(master); /* who has more to write than fits is not left waiting */
    int status = 0;
    waitpid(child, &status, 0);
    print_visibly();
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
