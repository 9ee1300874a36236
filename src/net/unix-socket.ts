/** Whether a URL is written as other programs write a Unix socket: `http://unix:/run/app.sock`. It would name a host "unix". */
export function isUnixSocket(url: string): boolean {
  return /^https?:\/\/unix:\//i.test(url);
}

export const unixSocketFault = "is a Unix socket, and the relay connects to hosts only: give host and port";
