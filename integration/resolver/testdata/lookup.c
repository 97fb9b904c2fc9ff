/* Prints the addresses of a name, as getaddrinfo sees them, one a line, or its
 * error: lookup NAME [4|6]. */
#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

int main(int argc, char **argv)
{
	struct addrinfo hints, *list, *a;
	char text[INET6_ADDRSTRLEN];
	int err;

	if (argc < 2)
		return 2;
	memset(&hints, 0, sizeof hints);
	hints.ai_socktype = SOCK_STREAM;
	hints.ai_family = AF_UNSPEC;
	if (argc > 2)
		hints.ai_family = argv[2][0] == '4' ? AF_INET : AF_INET6;
	err = getaddrinfo(argv[1], NULL, &hints, &list);
	if (err != 0) {
		/* older versions of musl don't tell the two apart */
		printf("%s\n", err == EAI_NONAME || err == EAI_NODATA ? "NONE" : gai_strerror(err));
		return 1;
	}
	for (a = list; a != NULL; a = a->ai_next) {
		const void *from = a->ai_family == AF_INET
			? (const void *)&((struct sockaddr_in *)a->ai_addr)->sin_addr
			: (const void *)&((struct sockaddr_in6 *)a->ai_addr)->sin6_addr;
		printf("%s\n", inet_ntop(a->ai_family, from, text, sizeof text));
	}
	freeaddrinfo(list);
	return 0;
}
